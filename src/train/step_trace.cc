#include "train/step_trace.h"

#include <span>
#include <vector>

#include "file/atomic.h"

namespace pleiad {

void StepTrace::write(Communicator& comm) {
  if (!comm.any(recorded_)) return;
  recorded_ = false;
  const std::vector<std::string> all = comm.gather_texts(trace_.take(comm.rank()));
  if (comm.rank() != 0) return;
  const std::string document = Trace::document(all);
  write_whole_file(file_, std::as_bytes(std::span(document)));
}

}  // namespace pleiad
