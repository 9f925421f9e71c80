// Uses Pleiad's own C++ API from an installed package.
#include <cstdio>
#include <pleiad/pleiad.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void must(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("does not hold: ") + what);
}

void run(pleiad::Session& session) {
  const int size = session.size();
  const pleiad::ArrayTable sums =
      session.create_array(257, {.name = "sums", .dtype = pleiad::DType::float64}, std::vector<double>(257, 0.25));
  const std::vector<double> delta(257, session.rank() + 1);
  sums.add(delta);
  session.barrier();
  std::vector<double> values(257);
  sums.get(values);
  for (const double value : values) must(value == 0.25 + size * (size + 1) / 2.0, "the sum of all ranks' adds");

  const pleiad::MatrixTable rounds = session.create_matrix(
      5, 2, {.name = "rounds", .clock = "sync", .apply = "round", .updater = {.rule = "sgd", .learning_rate = 1}});
  const std::vector<pleiad::RowId> ids = {4, 0, 4};
  rounds.add_rows(ids, std::vector<float>{1, 2, 3, 4, 5, 6});
  std::vector<float> rows(6);
  rounds.get_rows(ids, rows);
  must(rows == std::vector<float>{-6.0F * size, -8.0F * size, -3.0F * size, -4.0F * size, -6.0F * size, -8.0F * size},
       "a round of row adds");

  std::vector<int> numbers = {session.rank(), 1};
  session.all_reduce(numbers);
  must(numbers == std::vector<int>{size * (size - 1) / 2, size}, "the all-reduce");

  try {
    sums.add(std::vector<double>(256));
    must(false, "an array of the wrong size is refused");
  } catch (const pleiad::InvalidArgument& error) {
    must(std::string(error.what()).find("257") != std::string::npos, "the message says what was expected");
  }
}

}  // namespace

int main() {
  try {
    pleiad::Session session = pleiad::Session::start({.timeout = 600});
    run(session);
    const int rank = session.rank();
    const int size = session.size();
    session.shutdown();
    std::printf("native_cxx: rank %d of %d is right\n", rank, size);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
