"""What people bring to audits of trained models: libraries, classes, commands and their claims."""
