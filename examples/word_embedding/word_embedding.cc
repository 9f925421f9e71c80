// Word embedding, as Multiverso's application of that name: skip-gram or CBOW, negative sampling or hierarchical
// softmax, with the same options.
//
//   pleiad launch -n 4 word_embedding -train_file text.txt -output vectors.txt -size 100 -cbow 0 -negative 5
//
// Two matrices hold the model: a row for each word, and a row for each inner node of the tree. A worker processes its
// part of the text block by block: it gets the rows that the block uses, trains on its copies, and adds the changes.
// With -is_pipeline 1, the rows of the next block are fetched meanwhile.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "cli/progress.h"
#include "examples/word_embedding/options.h"
#include "examples/word_embedding/vocabulary.h"
#include "pleiad/pleiad.hpp"

namespace {

using namespace pleiad;
using Sentence = std::vector<std::int64_t>;

/// Rows of one matrix, and their values when they were fetched.
class Part {
 public:
  Part(const MatrixTable& table, std::vector<RowId> ids) : table_(table), ids_(std::move(ids)) {
    std::ranges::sort(ids_);
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    values_.resize(ids_.size() * static_cast<std::size_t>(table_.cols()));
    pending_ = table_.get_rows_async(ids_, values_);
  }
  void wait() {
    pending_.wait();
    before_ = values_;
  }
  [[nodiscard]] float* row(RowId id) {
    const auto place = std::ranges::lower_bound(ids_, id) - ids_.begin();
    return values_.data() + place * table_.cols();
  }
  /// All workers change the same rows at once. Each adds 1/workers of its change, or their sum would be too large.
  void add_changes(float share) {
    for (std::size_t i = 0; i < values_.size(); ++i) before_[i] = share * (values_[i] - before_[i]);
    table_.add_rows(ids_, before_);
  }

 private:
  MatrixTable table_;
  std::vector<RowId> ids_;
  std::vector<float> values_;
  std::vector<float> before_;
  Pending pending_;
};

/// One target that an output row is trained towards: 1 or 0.
struct Goal {
  RowId row;
  float label;
};

/// A part of the text with all random choices of its training, which are made before the rows are fetched.
struct Block {
  struct Pass {
    Sentence context;  ///< skip-gram: one word; CBOW: all of them
    std::vector<Goal> goals;
  };
  std::vector<Pass> passes;
  std::int64_t words = 0;
  std::unique_ptr<Part> in, out, in_squares, out_squares;
};

class Trainer {
 public:
  Trainer(Session& session, const Options& options, const Vocabulary& words)
      : session_(session),
        options_(options),
        words_(words),
        random_(static_cast<std::uint64_t>(session.rank()) + 1),
        in_(table("input", words.size(), first_values())),
        out_(table("output", words.size(), {})) {
    if (options.use_adagrad) {
      in_squares_ = table("input squares", words.size(), {});
      out_squares_ = table("output squares", words.size(), {});
    }
  }

  void run() {
    cli::Progress progress(session_.rank() == 0);
    const auto start = std::chrono::steady_clock::now();
    const double all = static_cast<double>(words_.total()) * options_.epoch / session_.size();
    std::int64_t done = 0;
    const auto finish = [&](Block& block) {
      train(block, std::max(1e-4, 1 - static_cast<double>(done) / (all + 1)));
      done += block.words;
      char text[128];
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      std::snprintf(text, sizeof text, "%lld words a worker, %.0f a second, loss %.4f", static_cast<long long>(done),
                    static_cast<double>(done) / std::max(seconds, 1e-9), loss_ / std::max<double>(1, losses_));
      progress.show(std::min(1.0, static_cast<double>(done) / all), text);
      loss_ = losses_ = 0;
    };
    for (int epoch = 0; epoch < options_.epoch; ++epoch) {
      std::unique_ptr<Block> before;
      each_block([&](std::unique_ptr<Block> block) {
        ask(*block);
        if (!options_.is_pipeline) return finish(*block);
        if (before) finish(*before);
        before = std::move(block);
      });
      if (before) finish(*before);
      session_.barrier();
    }
  }

  /// Writes the vectors on the first rank, in word2vec's format.
  void save() const {
    std::ofstream file(options_.output, std::ios::binary);
    const auto cols = static_cast<std::size_t>(options_.size);
    file << words_.size() << " " << options_.size << "\n";
    std::vector<float> row(cols);
    for (std::int64_t w = 0; w < words_.size(); ++w) {
      in_.get_row(w, row);
      file << words_.words()[static_cast<std::size_t>(w)].text;
      if (options_.binary) {
        file << " ";
        file.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(cols * sizeof(float)));
      } else {
        for (const float x : row) file << " " << x;
      }
      file << "\n";
    }
    file.flush();
    if (!file) throw std::runtime_error(options_.output + ": cannot be written");
  }

 private:
  [[nodiscard]] MatrixTable table(const std::string& name, std::int64_t rows, const std::vector<float>& initial) {
    return session_.create_matrix(rows, options_.size, {.name = name}, initial);
  }

  [[nodiscard]] std::vector<float> first_values() {
    std::vector<float> values(static_cast<std::size_t>(words_.size() * options_.size));
    std::mt19937_64 random(17);
    std::uniform_real_distribution<float> spread(-0.5F, 0.5F);
    for (float& x : values) x = spread(random) / static_cast<float>(options_.size);
    return values;
  }

  // The ranks take the lines of the text in turn. A block ends with the line that fills it.
  void each_block(const std::function<void(std::unique_ptr<Block>)>& use) {
    std::ifstream file(options_.train_file);
    if (!file) throw std::runtime_error(options_.train_file + ": cannot be read");
    auto block = std::make_unique<Block>();
    std::int64_t bytes = 0;
    std::int64_t number = 0;
    for (std::string line; std::getline(file, line); ++number) {
      if (number % session_.size() != session_.rank()) continue;
      add_line(line, *block);
      bytes += static_cast<std::int64_t>(line.size()) + 1;
      if (bytes < options_.data_block_size) continue;
      use(std::exchange(block, std::make_unique<Block>()));
      bytes = 0;
    }
    if (!block->passes.empty()) use(std::move(block));
  }

  void add_line(const std::string& line, Block& block) {
    Sentence sentence;
    std::size_t at = 0;
    while ((at = line.find_first_not_of(" \t\r", at)) != std::string::npos) {
      const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
      const std::int64_t word = words_.find(line.substr(at, end - at));
      at = end;
      if (word < 0) continue;
      ++block.words;
      if (std::uniform_real_distribution<double>(0, 1)(random_) < words_.keep(word, options_.sample)) {
        sentence.push_back(word);
      }
    }
    const auto length = static_cast<std::int64_t>(sentence.size());
    for (std::int64_t i = 0; i < length; ++i) {
      const auto reach = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(options_.window)) + 1;
      Sentence context;
      for (std::int64_t j = std::max<std::int64_t>(0, i - reach); j <= std::min(length - 1, i + reach); ++j) {
        if (j != i) context.push_back(sentence[static_cast<std::size_t>(j)]);
      }
      if (context.empty()) continue;
      const std::int64_t word = sentence[static_cast<std::size_t>(i)];
      if (options_.cbow) {
        block.passes.push_back({.context = std::move(context), .goals = goals(word)});
      } else {
        for (const std::int64_t other : context) block.passes.push_back({.context = {other}, .goals = goals(word)});
      }
    }
  }

  // Inner nodes of the tree and words share the rows of the output matrix, because only one of the two is in use.
  std::vector<Goal> goals(std::int64_t word) {
    std::vector<Goal> goals;
    if (options_.hs) {
      const Word& w = words_.words()[static_cast<std::size_t>(word)];
      for (std::size_t i = 0; i < w.points.size(); ++i) {
        goals.push_back({.row = w.points[i], .label = w.codes[i] == 0 ? 1.0F : 0.0F});
      }
      return goals;
    }
    goals.push_back({.row = word, .label = 1});
    for (int i = 0; i < options_.negative; ++i) {
      const std::int64_t other = words_.draw(random_);
      if (other != word) goals.push_back({.row = other, .label = 0});
    }
    return goals;
  }

  void ask(Block& block) const {
    std::vector<RowId> in;
    std::vector<RowId> out;
    for (const Block::Pass& pass : block.passes) {
      in.insert(in.end(), pass.context.begin(), pass.context.end());
      for (const Goal& goal : pass.goals) out.push_back(goal.row);
    }
    if (options_.use_adagrad) {
      block.in_squares = std::make_unique<Part>(*in_squares_, in);
      block.out_squares = std::make_unique<Part>(*out_squares_, out);
    }
    block.in = std::make_unique<Part>(in_, std::move(in));
    block.out = std::make_unique<Part>(out_, std::move(out));
  }

  void train(Block& block, double left) {
    for (Part* part : {block.in.get(), block.out.get(), block.in_squares.get(), block.out_squares.get()}) {
      if (part != nullptr) part->wait();
    }
    const auto rate = static_cast<float>(options_.use_adagrad ? options_.alpha : options_.alpha * left);
    const std::span<const Block::Pass> passes(block.passes);
    const std::size_t count =
        std::min(static_cast<std::size_t>(options_.threads), std::max<std::size_t>(1, passes.size()));
    std::vector<Loss> losses(count);
    const auto slice = [&](std::size_t i) {
      const std::size_t first = passes.size() * i / count;
      return passes.subspan(first, passes.size() * (i + 1) / count - first);
    };
    if (count == 1) {
      losses[0] = train_passes<false>(block, passes, rate);
    } else {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < count; ++i) {
        threads.emplace_back([&, i] { losses[i] = train_passes<true>(block, slice(i), rate); });
      }
    }
    for (const Loss& loss : losses) {
      loss_ += loss.sum;
      losses_ += loss.count;
    }
    for (Part* part : {block.in.get(), block.out.get(), block.in_squares.get(), block.out_squares.get()}) {
      if (part != nullptr) part->add_changes(1 / static_cast<float>(session_.workers()));
    }
  }

  struct Loss {
    double sum = 0;
    double count = 0;
  };

  // With several threads (kShared), all of them read and write the same rows without locks, as in Multiverso. If two
  // threads change a value at the same time, one update may be lost.
  template <bool kShared>
  static float load(float& value) {
    if constexpr (kShared) return std::atomic_ref(value).load(std::memory_order_relaxed);
    return value;
  }
  template <bool kShared>
  static void store(float& value, float now) {
    if constexpr (kShared) {
      std::atomic_ref(value).store(now, std::memory_order_relaxed);
    } else {
      value = now;
    }
  }

  template <bool kShared>
  Loss train_passes(Block& block, std::span<const Block::Pass> passes, float rate) const {
    Loss loss;
    const auto size = static_cast<std::size_t>(options_.size);
    std::vector<float> hidden(size);
    std::vector<float> error(size);
    for (const Block::Pass& pass : passes) {
      std::ranges::fill(hidden, 0.0F);
      std::ranges::fill(error, 0.0F);
      for (const std::int64_t word : pass.context) {
        float* row = block.in->row(word);
        for (std::size_t k = 0; k < size; ++k) {
          hidden[k] += load<kShared>(row[k]) / static_cast<float>(pass.context.size());
        }
      }
      for (const Goal& goal : pass.goals) {
        float* row = block.out->row(goal.row);
        float dot = 0;
        for (std::size_t k = 0; k < size; ++k) dot += hidden[k] * load<kShared>(row[k]);
        const float p = 1 / (1 + std::exp(-dot));
        loss.sum -= std::log(std::clamp(goal.label == 1 ? p : 1 - p, 1e-7F, 1.0F));
        ++loss.count;
        const float step = goal.label - p;
        float* squares = options_.use_adagrad ? block.out_squares->row(goal.row) : nullptr;
        for (std::size_t k = 0; k < size; ++k) {
          error[k] += step * load<kShared>(row[k]);
          move<kShared>(row[k], step * hidden[k], rate, squares == nullptr ? nullptr : squares + k);
        }
      }
      for (const std::int64_t word : pass.context) {
        float* row = block.in->row(word);
        float* squares = options_.use_adagrad ? block.in_squares->row(word) : nullptr;
        for (std::size_t k = 0; k < size; ++k) {
          move<kShared>(row[k], error[k], rate, squares == nullptr ? nullptr : squares + k);
        }
      }
    }
    return loss;
  }

  template <bool kShared>
  static void move(float& value, float gradient, float rate, float* squares) {
    if (squares == nullptr) return store<kShared>(value, load<kShared>(value) + rate * gradient);
    const float sum = load<kShared>(*squares) + gradient * gradient;
    store<kShared>(*squares, sum);
    store<kShared>(value, load<kShared>(value) + rate * gradient / (std::sqrt(sum) + 1e-6F));
  }

  Session& session_;
  const Options& options_;
  const Vocabulary& words_;
  std::mt19937_64 random_;
  MatrixTable in_;
  MatrixTable out_;
  std::optional<MatrixTable> in_squares_;
  std::optional<MatrixTable> out_squares_;
  double loss_ = 0;
  double losses_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options = Options::parse(argc, argv);
  const std::string stopwords = options.stopwords ? options.sw_file : "";
  const Vocabulary words = options.read_vocab.empty()
                               ? Vocabulary::of_text(options.train_file, options.min_count, stopwords)
                               : Vocabulary::of_list(options.read_vocab, options.min_count, stopwords);
  Session session = Session::start();
  Trainer trainer(session, options, words);
  trainer.run();
  if (session.rank() == 0) {
    trainer.save();
    std::printf("%lld vectors of %d in %s\n", static_cast<long long>(words.size()), options.size,
                options.output.c_str());
  }
  session.barrier();
  session.shutdown();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "word_embedding: %s\n", error.what());
  return 1;
}
