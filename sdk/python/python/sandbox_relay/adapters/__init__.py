"""The tools for the frameworks that agents are written with. Each is imported when `Host` is asked for it."""
