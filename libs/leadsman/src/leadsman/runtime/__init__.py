"""What every service process needs: tasks and signals, HTTP serving, readiness, process settings, common options."""
