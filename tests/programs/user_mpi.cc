// A program that uses MPI itself, beside Pleiad (test_processes.py).
//   user_mpi before     MPI_Init, a session, MPI_Finalize
//   user_mpi after      a session, which initialises MPI, and then MPI calls
//   user_mpi finalized  a session after MPI_Finalize, which is too late
#include <mpi.h>

#include <string>
#include <vector>

#include "pleiad/pleiad.hpp"
#include "tests/programs/line.h"

namespace {

using namespace pleiad;

// Sums over the ranks with the user's own MPI.
int mpi_sum() {
  int rank = 0;
  int sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int mine = rank + 1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

void say(const std::string& key, const std::string& value) {
  print_line("{" + json_string(key) + ": " + json_string(value) + "}");
}

void use_a_session(const char* when) {
  Session session = Session::start();
  const ArrayTable table = session.create_array(3, {.dtype = DType::int32});
  table.add(std::vector<std::int32_t>{1, 1, 1});
  const int between = mpi_sum();  // also acts as a barrier: all ranks have added
  std::vector<std::int32_t> out(3);
  table.get(out);
  say(std::string(when) + " session", session.engine() + " " + std::to_string(out[2]) + " " + std::to_string(between));
  session.shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode != "after") {
    MPI_Init(&argc, &argv);
    say("alone", std::to_string(mpi_sum()));
  }
  if (mode == "finalized") {
    MPI_Finalize();
    try {
      Session session = Session::start();
      say("late session", "started");
    } catch (const Error& error) {
      say("late session", error.what());
    }
    return 0;
  }
  use_a_session("first");
  say("after", std::to_string(mpi_sum()));
  use_a_session("second");
  int finalized = 0;
  MPI_Finalized(&finalized);
  say("finalized", std::to_string(finalized));
  if (mode == "before") MPI_Finalize();
  return 0;
}
