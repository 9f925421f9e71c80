// Softmax regression on Fashion-MNIST, trained by all processes at once through one asynchronous matrix table.
//
//   pleiad launch -n 4 fashion_softmax [--epochs 20] [--batch 100] [--rate 0.1] [--data DIR] [--out DIR]
//
// Every worker gets the weights, computes the gradient of its next batch and adds it. The table's rule makes the step.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <random>

#include "cli/progress.h"
#include "pleiad/data.h"
#include "pleiad/pleiad.hpp"

namespace {

constexpr std::int64_t kPixels = 784;
constexpr std::int64_t kInputs = kPixels + 1;  // the last input is always 1, for the bias
constexpr std::int64_t kClasses = 10;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Options {
  int epochs = 20;
  std::int64_t batch = 100;
  double rate = 0.1;
  std::string data;  // empty lets open_dataset find the folder
  std::string out = "out/demo";
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::runtime_error(name + " needs a value");
    const std::string value = argv[i + 1];
    if (name == "--epochs")
      options.epochs = std::stoi(value);
    else if (name == "--batch")
      options.batch = std::stoll(value);
    else if (name == "--rate")
      options.rate = std::stod(value);
    else if (name == "--data")
      options.data = value;
    else if (name == "--out")
      options.out = value;
    else
      throw std::runtime_error("unknown option " + name + "; known: --epochs, --batch, --rate, --data, --out");
  }
  if (options.epochs < 1 || options.batch < 1) throw std::runtime_error("--epochs and --batch must be at least 1");
  return options;
}

struct Images {
  std::vector<float> pixels;  // kInputs values per image
  std::vector<std::int32_t> labels;
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
  [[nodiscard]] const float* row(std::int64_t i) const { return pixels.data() + i * kInputs; }
};

Images load(const std::string& folder, const std::string& part) {
  const std::shared_ptr<const pleiad::Store> store =
      pleiad::open_dataset({.name = "fashion-mnist", .part = part, .folder = folder});
  if (store->fields()[0].count() != kPixels) throw std::runtime_error(store->name() + ": expected images of 28 x 28");
  pleiad::Loader loader(store, {.batch = 1000, .epochs = 1, .transform = {.scale = 1.0 / 255}});
  Images loaded;
  loaded.pixels.reserve(static_cast<std::size_t>(store->size() * kInputs));
  while (const auto batch = loader.next()) {
    const auto labels = batch->ints(1);
    loaded.labels.insert(loaded.labels.end(), labels.begin(), labels.end());
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const auto image = batch->floats(0).subspan(static_cast<std::size_t>(i * kPixels), kPixels);
      loaded.pixels.insert(loaded.pixels.end(), image.begin(), image.end());
      loaded.pixels.push_back(1);
    }
  }
  return loaded;
}

// Computes the class scores of one image: a dot product with each row of the weights.
void scores_of(const float* image, const std::vector<float>& weights, float* scores) {
  for (std::int64_t c = 0; c < kClasses; ++c) {
    scores[c] = std::inner_product(image, image + kInputs, weights.data() + c * kInputs, 0.0F);
  }
}

struct Quality {
  double accuracy = 0;
  double loss = 0;
};

Quality evaluate(const Images& images, const std::vector<float>& weights) {
  Quality quality;
  float scores[kClasses];
  for (std::int64_t i = 0; i < images.count(); ++i) {
    scores_of(images.row(i), weights, scores);
    const auto label = images.labels[static_cast<std::size_t>(i)];
    const float* best = std::max_element(scores, scores + kClasses);
    const float top = *best;
    double sum = 0;
    for (const float s : scores) sum += std::exp(s - top);
    quality.accuracy += best - scores == label ? 1 : 0;
    quality.loss += std::log(sum) - (scores[label] - top);
  }
  const auto count = static_cast<double>(images.count());
  return {.accuracy = quality.accuracy / count, .loss = quality.loss / count};
}

// Computes the gradient of the mean loss over a batch.
void gradient_of(const Images& images, std::span<const std::int64_t> batch, const std::vector<float>& weights,
                 std::vector<float>& gradient) {
  std::ranges::fill(gradient, 0.0F);
  float scores[kClasses];
  for (const std::int64_t i : batch) {
    const float* image = images.row(i);
    scores_of(image, weights, scores);
    const float top = *std::max_element(scores, scores + kClasses);
    float sum = 0;
    for (float& s : scores) sum += s = std::exp(s - top);
    for (std::int64_t c = 0; c < kClasses; ++c) {
      const float share = scores[c] / sum - (images.labels[static_cast<std::size_t>(i)] == c ? 1.0F : 0.0F);
      const float factor = share / static_cast<float>(batch.size());
      float* row = gradient.data() + c * kInputs;
      for (std::int64_t p = 0; p < kInputs; ++p) row[p] += factor * image[p];
    }
  }
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  auto session = pleiad::Session::start();
  const bool master = session.worker_id() == 0;
  const Images train = load(options.data, "train");
  const Images test = master ? load(options.data, "test") : Images{};

  pleiad::TableOptions table_options;
  table_options.name = "weights";
  table_options.updater.rule = "momentum";
  table_options.updater.momentum = 0.5;
  const pleiad::MatrixTable table = session.create_matrix(kClasses, kInputs, table_options);

  std::vector<float> weights(kClasses * kInputs);
  std::vector<float> gradient(kClasses * kInputs);
  std::vector<std::int64_t> order;  // this worker's images
  for (std::int64_t i = session.worker_id(); i < train.count(); i += session.workers()) order.push_back(i);
  std::mt19937 random(static_cast<unsigned>(17 + session.worker_id()));
  const auto size = static_cast<std::int64_t>(order.size());
  const std::int64_t steps_per_epoch = (size + options.batch - 1) / options.batch;
  const std::int64_t steps = steps_per_epoch * options.epochs;

  std::ofstream curve;
  if (master) {
    std::filesystem::create_directories(options.out);
    curve.open(options.out + "/fashion_softmax.csv");
    curve << "seconds,examples,accuracy,loss\n";
  }
  session.barrier();
  const auto start = Clock::now();
  double get_seconds = 0;
  double add_seconds = 0;
  std::int64_t next_look = 0;
  pleiad::cli::Progress progress(master);
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t at = step % steps_per_epoch * options.batch;
    if (at == 0) std::shuffle(order.begin(), order.end(), random);
    const auto before_get = Clock::now();
    table.get(weights);
    get_seconds += seconds_since(before_get);
    gradient_of(train,
                std::span(order).subspan(static_cast<std::size_t>(at),
                                         static_cast<std::size_t>(std::min(options.batch, size - at))),
                weights, gradient);
    // The learning rate decreases to a tenth, which reduces the noise at the end.
    const double rate = options.rate * std::pow(0.1, static_cast<double>(step) / static_cast<double>(steps));
    const auto before_add = Clock::now();
    table.add(gradient, {.learning_rate = rate});
    add_seconds += seconds_since(before_add);
    if (master && (step >= next_look || step + 1 == steps)) {
      const double trained = seconds_since(start);
      const Quality quality = evaluate(test, weights);
      curve << trained << ',' << (step + 1) * options.batch * session.workers() << ',' << quality.accuracy << ','
            << quality.loss << '\n';
      char text[160];
      std::snprintf(text, sizeof text, "epoch %lld of %d  %.1f s  test accuracy %.4f  loss %.4f",
                    static_cast<long long>(step / steps_per_epoch + 1), options.epochs, trained, quality.accuracy,
                    quality.loss);
      progress.show(static_cast<double>(step + 1) / static_cast<double>(steps), text);
      next_look = step + std::max<std::int64_t>(1, steps / 24);
    }
  }
  session.barrier();
  const double worked = seconds_since(start);
  table.get(weights);
  if (master) {
    const Quality quality = evaluate(test, weights);
    curve << worked << ',' << steps * options.batch * session.workers() << ',' << quality.accuracy << ','
          << quality.loss << '\n';
    progress.show(1, "done");
    const auto microseconds = [&](double seconds) { return seconds * 1e6 / static_cast<double>(steps); };
    std::printf("\n%d workers on %d host(s), %d epochs of %lld images in %.1f s: %.0f images/s\n", session.workers(),
                session.hosts(), options.epochs, static_cast<long long>(train.count()), worked,
                static_cast<double>(train.count()) * options.epochs / worked);
    std::printf(
        "a step of worker 0 took %.0f us: get %.1f us, add %.1f us, the rest is the gradient and looking at the test "
        "set\n",
        microseconds(worked), microseconds(get_seconds), microseconds(add_seconds));
    std::printf("test accuracy %.4f, loss %.4f\n", quality.accuracy, quality.loss);
    std::fflush(stdout);
  }
  session.shutdown();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "fashion_softmax: " << error.what() << '\n';
    return 1;
  }
}
