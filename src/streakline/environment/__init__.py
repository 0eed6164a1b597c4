"""Where tool calls run: the simulated worlds, one episode in them, and the replay that graders use."""
