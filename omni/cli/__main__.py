from omni.cli import main

main()
