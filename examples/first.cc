#include <cstdio>
#include <vector>

#include "pleiad/pleiad.hpp"

int main() {
  auto session = pleiad::Session::start();  // one process, or one rank of the launcher's job
  pleiad::ArrayTable table = session.create_array(1000, {.name = "weights"});

  const std::vector<float> gradient(1000, 0.5F);
  table.add(gradient);  // all ranks add to the same values
  session.barrier();    // completes the adds and waits for all ranks

  std::vector<float> weights(1000);
  table.get(weights);
  if (session.rank() == 0) std::printf("%d ranks made weights[0] = %g\n", session.size(), weights[0]);
  session.shutdown();
}
