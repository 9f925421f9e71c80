// Logistic regression, as Multiverso's application of that name: dense or sparse samples, SGD or FTRL, and the same
// keys in the configuration file.
//
//   pleiad launch -n 4 logistic_regression settings.config
//
// The model is one table with a row for each feature and one for the bias, and a column for each output. For sparse
// samples the table holds only the rows of features that occur. A worker gets the rows that its next minibatches use
// (all rows for dense samples) and adds their gradients. The table's rule makes the step. A test prints one line: the
// accuracy or error, and the time.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/progress.h"
#include "examples/logistic_regression/samples.h"
#include "pleiad/pleiad.hpp"

namespace {

using namespace pleiad;
using Clock = std::chrono::steady_clock;

/// The rows of the model that some samples use, and a copy of them.
struct Rows {
  std::vector<RowId> ids;     ///< ascending
  std::vector<float> values;  ///< row after row
  Pending pending;

  [[nodiscard]] std::size_t place(RowId id) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(ids, id) - ids.begin());
  }
};

class Model {
 public:
  Model(Session& session, const Config& config)
      : config_(config), outputs_(static_cast<std::size_t>(config.output_size)) {
    const TableOptions options{.name = "model", .updater = rule(config)};
    if (config.sparse) {
      sparse_ = session.create_sparse(config.output_size, options);
    } else {
      dense_ = session.create_matrix(config.input_size + 1, config.output_size, options);
    }
  }

  [[nodiscard]] std::unique_ptr<Rows> start_get(std::span<const Sample> samples, bool now) const {
    auto rows = std::make_unique<Rows>();
    if (config_.sparse) {
      for (const Sample& sample : samples) rows->ids.insert(rows->ids.end(), sample.keys.begin(), sample.keys.end());
      std::ranges::sort(rows->ids);
      rows->ids.erase(std::unique(rows->ids.begin(), rows->ids.end()), rows->ids.end());
    } else {
      for (RowId id = 0; id <= config_.input_size; ++id) rows->ids.push_back(id);
    }
    rows->values.resize(rows->ids.size() * outputs_);
    if (now) {
      sparse_ ? sparse_->get(rows->ids, rows->values) : dense_->get(rows->values);
    } else {
      rows->pending = sparse_ ? sparse_->get_async(rows->ids, rows->values) : dense_->get_async(rows->values);
    }
    return rows;
  }

  [[nodiscard]] std::vector<float> predict(const Sample& sample, const Rows& rows) const {
    std::vector<float> out(outputs_);
    for (std::size_t i = 0; i < sample.keys.size(); ++i) {
      const float* row = rows.values.data() + rows.place(sample.keys[i]) * outputs_;
      for (std::size_t k = 0; k < outputs_; ++k) out[k] += sample.values[i] * row[k];
    }
    if (config_.objective_type == "softmax") {
      const float top = *std::ranges::max_element(out);
      float sum = 0;
      for (float& v : out) sum += v = std::exp(v - top);
      for (float& v : out) v /= sum;
    } else if (config_.objective_type != "default") {
      for (float& v : out) v = 1 / (1 + std::exp(-v));
    }
    return out;
  }

  [[nodiscard]] std::vector<float> wanted(const Sample& sample) const {
    if (outputs_ == 1) return {static_cast<float>(sample.label)};
    std::vector<float> out(outputs_);
    out[static_cast<std::size_t>(sample.label)] = 1;
    return out;
  }

  /// Makes one step: adds the mean gradient of the samples, on the given rows, to the table. Returns the sum of their
  /// losses.
  double train(std::span<const Sample> samples, Rows& rows, double rate) const {
    Rows touched;
    if (config_.sparse) {
      for (const Sample& sample : samples)
        touched.ids.insert(touched.ids.end(), sample.keys.begin(), sample.keys.end());
      std::ranges::sort(touched.ids);
      touched.ids.erase(std::unique(touched.ids.begin(), touched.ids.end()), touched.ids.end());
    } else {
      touched.ids = rows.ids;
    }
    touched.values.resize(touched.ids.size() * outputs_);
    double loss = 0;
    for (const Sample& sample : samples) {
      std::vector<float> error = predict(sample, rows);
      const std::vector<float> target = wanted(sample);
      loss += loss_of(error, target) * sample.weight;
      const auto scale = static_cast<float>(sample.weight / static_cast<double>(samples.size()));
      for (std::size_t k = 0; k < outputs_; ++k) error[k] = (error[k] - target[k]) * scale;
      for (std::size_t i = 0; i < sample.keys.size(); ++i) {
        float* row = touched.values.data() + touched.place(sample.keys[i]) * outputs_;
        for (std::size_t k = 0; k < outputs_; ++k) row[k] += sample.values[i] * error[k];
      }
    }
    for (std::size_t r = 0; r < touched.ids.size(); ++r) {
      float* mine = rows.values.data() + rows.place(touched.ids[r]) * outputs_;
      float* gradient = touched.values.data() + r * outputs_;
      for (std::size_t k = 0; k < outputs_; ++k) {
        gradient[k] += penalty(mine[k]);
        // Until the next get this worker continues with its own steps. Only the table can make FTRL's steps.
        if (!config_.ftrl()) mine[k] -= static_cast<float>(rate) * gradient[k];
      }
    }
    const AddOptions options = config_.ftrl() ? AddOptions{} : AddOptions{.learning_rate = rate};
    sparse_ ? sparse_->add(touched.ids, touched.values, options) : dense_->add(touched.values, options);
    return loss;
  }

  [[nodiscard]] bool right(const std::vector<float>& out, const Sample& sample) const {
    if (outputs_ == 1) return (out[0] >= 0.5F) == (sample.label == 1);
    return std::ranges::max_element(out) - out.begin() == sample.label;
  }

 private:
  static UpdaterOptions rule(const Config& c) {
    if (!c.ftrl()) return {.rule = "sgd", .learning_rate = c.learning_rate};
    return {.rule = "ftrl", .learning_rate = c.alpha, .l1 = c.lambda1, .l2 = c.lambda2, .ftrl_beta = c.beta};
  }

  [[nodiscard]] double loss_of(const std::vector<float>& out, const std::vector<float>& target) const {
    double loss = 0;
    for (std::size_t k = 0; k < outputs_; ++k) {
      const double p = std::clamp<double>(out[k], 1e-7, 1 - 1e-7);
      if (config_.objective_type == "default") {
        loss += 0.5 * (out[k] - target[k]) * (out[k] - target[k]);
      } else if (config_.objective_type == "softmax") {
        loss -= target[k] * std::log(p);
      } else {
        loss -= target[k] * std::log(p) + (1 - target[k]) * std::log(1 - p);
      }
    }
    return loss;
  }

  [[nodiscard]] float penalty(float w) const {
    const auto coef = static_cast<float>(config_.regular_coef);
    if (config_.regular_type == "L2") return coef * w;
    if (config_.regular_type == "L1") return w > 0 ? coef : w < 0 ? -coef : 0;
    return 0;
  }

  const Config& config_;
  std::size_t outputs_;
  std::optional<SparseTable> sparse_;
  std::optional<MatrixTable> dense_;
};

void train(Session& session, const Config& config, const Model& model) {
  cli::Progress progress(session.rank() == 0);
  const auto start = Clock::now();
  const auto batch = static_cast<std::size_t>(config.minibatch_size);
  const std::size_t block = batch * static_cast<std::size_t>(config.sync_frequency);
  std::int64_t samples = 0;
  std::int64_t updates = 0;
  for (int epoch = 0; epoch < config.train_epoch; ++epoch) {
    SampleReader reader(config, config.train_files(), session.rank(), session.size());
    double loss = 0;
    std::int64_t seen = 0;
    // With a pipeline, the rows of the next block are fetched while this block is computed.
    std::vector<Sample> coming;
    std::unique_ptr<Rows> coming_rows;
    std::vector<Sample> buffer;
    std::size_t used = 0;
    const auto next_block = [&] {
      std::vector<Sample> out;
      while (out.size() < block) {
        if (used == buffer.size()) {
          buffer = reader.next(std::max(block, static_cast<std::size_t>(config.read_buffer_size)));
          used = 0;
          if (buffer.empty()) break;
        }
        out.push_back(std::move(buffer[used++]));
      }
      return out;
    };
    coming = next_block();
    while (!coming.empty()) {
      std::vector<Sample> now = std::move(coming);
      std::unique_ptr<Rows> rows = coming_rows ? std::move(coming_rows) : model.start_get(now, true);
      rows->pending.wait();
      coming = next_block();
      if (config.pipeline && !coming.empty()) coming_rows = model.start_get(coming, false);
      for (std::size_t first = 0; first < now.size(); first += batch) {
        const std::span<const Sample> few(now.data() + first, std::min(batch, now.size() - first));
        const double rate =
            std::max(1e-3, config.learning_rate -
                               static_cast<double>(updates) / (config.learning_rate_coef * config.minibatch_size));
        loss += model.train(few, *rows, rate);
        ++updates;
        seen += static_cast<std::int64_t>(few.size());
        const std::int64_t before = samples;
        samples += static_cast<std::int64_t>(few.size());
        if (before / config.show_time_per_sample != samples / config.show_time_per_sample) {
          const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
          char text[128];
          std::snprintf(text, sizeof text, "epoch %d: %lld samples a worker, loss %.4f, %.1f s", epoch + 1,
                        static_cast<long long>(samples), loss / static_cast<double>(seen), seconds);
          progress.show(static_cast<double>(epoch) / config.train_epoch, text);
        }
      }
    }
    session.barrier();
    std::vector<double> sums = {loss, static_cast<double>(seen)};
    session.all_reduce(sums);
    char text[128];
    std::snprintf(text, sizeof text, "epoch %d of %d: loss %.4f over %.0f samples, %.1f s", epoch + 1,
                  config.train_epoch, sums[0] / std::max(sums[1], 1.0), sums[1],
                  std::chrono::duration<double>(Clock::now() - start).count());
    progress.show(static_cast<double>(epoch + 1) / config.train_epoch, text);
  }
}

/// Writes the predictions of the whole file, in its order. Returns the number of correct ones.
void test(const Config& config, const Model& model, double seconds) {
  SampleReader reader(config, {config.test_file}, 0, 1);
  std::ofstream out(config.output_file);
  std::int64_t all = 0;
  std::int64_t right = 0;
  for (;;) {
    const std::vector<Sample> samples = reader.next(static_cast<std::size_t>(config.read_buffer_size));
    if (samples.empty()) break;
    const auto rows = model.start_get(samples, true);
    for (const Sample& sample : samples) {
      const std::vector<float> prediction = model.predict(sample, *rows);
      for (std::size_t k = 0; k < prediction.size(); ++k) out << (k == 0 ? "" : " ") << prediction[k];
      out << "\n";
      ++all;
      right += model.right(prediction, sample) ? 1 : 0;
    }
  }
  out.flush();
  if (!out) throw std::runtime_error(config.output_file + ": cannot be written");
  std::printf("tested %lld samples: accuracy %.4f; trained in %.1f s\n", static_cast<long long>(all),
              static_cast<double>(right) / static_cast<double>(std::max<std::int64_t>(all, 1)), seconds);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2)
    throw std::runtime_error("logistic_regression FILE, with lines of key=value; docs/applications.md lists the keys");
  const Config config = Config::read(argv[1]);
  Session session = Session::start();
  if (!config.use_ps && session.size() > 1) {
    throw std::runtime_error("use_ps=false is for one process; set use_ps=true for a model that all processes share");
  }
  const Model model(session, config);
  if (!config.init_model_file.empty()) (void)load_tables(session, config.init_model_file);
  const auto start = Clock::now();
  train(session, config, model);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  save_tables(session, config.output_model_file);
  if (!config.test_file.empty() && session.rank() == 0) test(config, model, seconds);
  session.shutdown();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "logistic_regression: %s\n", error.what());
  return 1;
}
