"""Tests in a process of their own."""
