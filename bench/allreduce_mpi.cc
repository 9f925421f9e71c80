// Compares all-reduce with Open MPI's, in the same processes. mpirun starts it.
#include <mpi.h>

#include <cstdlib>

#include "bench/measure.h"

int main(int argc, char** argv) {
  using namespace pleiad;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  MPI_Init(&argc, &argv);
  {
    auto session = Session::start();
    for (const std::int64_t size : {1000, 100000, 10000000}) {
      std::vector<float> ours(static_cast<std::size_t>(size), 1.0F);
      std::vector<float> theirs(static_cast<std::size_t>(size), 1.0F);
      std::vector<float> sum(static_cast<std::size_t>(size), 0.0F);
      session.all_reduce(ours);
      if (ours.back() != static_cast<float>(session.size())) {
        std::fprintf(stderr, "bench: wrong result in all_reduce\n");
        return 1;
      }
      std::fill(ours.begin(), ours.end(), 0.0F);
      bench::compare(
          session, {.name = "allreduce_mpi", .size = size, .rounds = rounds}, [&] { session.all_reduce(ours); },
          [&] {
            MPI_Allreduce(MPI_IN_PLACE, theirs.data(), static_cast<int>(size), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
          });
      std::fill(theirs.begin(), theirs.end(), 0.0F);
    }
    session.shutdown();
  }
  MPI_Finalize();
}
