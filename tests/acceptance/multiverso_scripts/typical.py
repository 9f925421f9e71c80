"""The typical usage of the Python binding (document 000, lines 8 to 22)."""

# import multiverso.
import multiverso as mv

# Init multiverso.
mv.init()
# Get total number of workers.
print(mv.workers_num())
# Get the id for current worker.
print(mv.worker_id())
# if the worker is master worker.
print(mv.is_master_worker())

# train your model
if mv.is_master_worker():
    # validate your model
    # print your validation results
    print("validation results")

# Shutdown multiverso
mv.shutdown()
