"""Rank 1 takes no step. Rank 0 waits for it in the exchange until Ctrl-C interrupts the wait. test_nets.py starts it."""

import os
import signal
import sys
import threading
import time

import numpy as np

import pleiad
from pleiad import nn

session = pleiad.init(timeout=600, log_level="off")
net = nn.Sequential([nn.Dense(3)], input=(4,), loss=nn.SoftmaxLoss())
trainer = nn.Trainer(net, batch=8)
if session.rank == 1:
    time.sleep(600)
    sys.exit("rank 1 was not ended")
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    trainer.fit(np.ones((16, 4)), np.zeros(16, int), epochs=5, progress=False)
except KeyboardInterrupt:
    print("rank 0: KeyboardInterrupt", flush=True)
    session.leave()
    sys.exit(3)
