// The command `pleiad convert`: converts a store to another kind.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <optional>

#include "command_line.h"
#include "pleiad/data.h"
#include "pleiad/error.h"
#include "pleiad/records.h"
#include "progress.h"
#include "tools.h"

using namespace pleiad;
using cli::Words;

namespace {

constexpr int kInterrupted = 130;

std::atomic<bool> interrupted = false;

/// Kind and paths, parsed from text such as "idx:images,labels".
struct Place {
  std::string kind;
  Words paths;
};

Words split(const std::string& text, char at) {
  Words words(1);
  for (const char letter : text) {
    if (letter == at) {
      words.emplace_back();
    } else {
      words.back() += letter;
    }
  }
  return words;
}

Place place_of(const std::string& text, const char* example) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon + 1 == text.size()) {
    throw InvalidArgument(fmt::format("expected KIND:PATH, as {}; received \"{}\"", example, text));
  }
  return {.kind = text.substr(0, colon), .paths = split(text.substr(colon + 1), ',')};
}

std::unique_ptr<Store> open(const std::string& from, StoreOptions options) {
  const Place place = place_of(from, "idx:images,labels");
  const std::vector<std::string> sets = dataset_names();
  if (std::ranges::find(sets, place.kind) != sets.end() && (place.paths[0] == "train" || place.paths[0] == "test")) {
    return open_dataset({.name = place.kind, .part = place.paths[0]});
  }
  options.kind = place.kind;
  options.paths = place.paths;
  return open_store(options);
}

std::optional<FieldType> type_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const std::vector<FieldType> types = {FieldType::uint8, FieldType::float32, FieldType::float64, FieldType::int32,
                                        FieldType::int64};
  Words known;
  for (const FieldType type : types) {
    if (name_of(type) == name) return type;
    known.emplace_back(name_of(type));
  }
  throw InvalidArgument(unknown_name("type", name, known));
}

/// Returns the element type of the new records: the requested one, or the stored type if the new kind supports it, or
/// else the kind's usual type.
FieldType choose_type(const std::string& asked, FieldType stored, const std::string& kind) {
  if (const auto type = type_named(asked)) return *type;
  const bool bytes = kind == "idx" || kind == "cifar10" || kind == "images";
  if (bytes) return FieldType::uint8;
  if (kind == "hdf5" || stored == FieldType::uint8) return stored;
  return FieldType::float32;
}

struct Asked {
  std::string from, to, type, mean, separator = ",", to_separator = ",";
  StoreOptions in;
  std::vector<std::int64_t> out_shape;
  Words class_names;
  int digits = 8;
};

int convert(Asked asked) {
  const auto one = [](const std::string& text) {
    if (text.size() != 1) throw InvalidArgument(fmt::format("a separator is one letter; received \"{}\"", text));
    return text[0];
  };
  asked.in.separator = one(asked.separator);
  const Place place = place_of(asked.to, "kvfile:train.bin");
  const std::unique_ptr<Store> store = open(asked.from, asked.in);
  const std::size_t data = store->field("data");
  WriterOptions options{.kind = place.kind, .paths = place.paths, .data = store->fields()[data]};
  options.data.type = choose_type(asked.type, options.data.type, place.kind);
  if (!asked.out_shape.empty()) options.data.shape = asked.out_shape;
  options.label = store->fields().size() > 1;
  options.separator = one(asked.to_separator);
  options.key_digits = asked.digits;
  options.class_names = asked.class_names;

  std::signal(SIGINT, [](int) { interrupted = true; });
  {
    const std::unique_ptr<StoreWriter> writer = create_store(options);
    cli::Progress progress("converted", store->size());
    const bool done = copy_store(*store, *writer, [&](std::int64_t records) {
      progress.show(records);
      return !interrupted.load();
    });
    if (!done) {
      fmt::print(stderr, "pleiad convert: stopped; nothing is left of {}\n", join(place.paths));
      return kInterrupted;
    }
  }
  std::signal(SIGINT, SIG_DFL);
  fmt::print("{}: {} records of {}, {}{}\n", join(place.paths), grouped(store->size()), name_of(options.data.type),
             fmt::join(options.data.shape, " x "), options.label ? ", with labels" : "");
  if (!asked.mean.empty()) {
    write_mean(asked.mean, options.data.shape, statistics_of(*store, data, true).mean);
    fmt::print("{}: the mean of each number\n", asked.mean);
  }
  return 0;
}

}  // namespace

int pleiad::cli::run_convert(const Words& words) {
  Asked asked;
  CLI::App app("Convert a store to another kind. The new one is there in whole when it is complete.", "pleiad convert");
  app.footer(
      fmt::format("Kinds: {}; to write: {}.\nData sets by name: fashion-mnist:train, cifar10:test...\n"
                  "  pleiad convert fashion-mnist:train kvfile:train.bin --mean mean.bin",
                  join(store_kinds()), join(writable_kinds())));
  app.add_option("FROM", asked.from, "KIND:PATH[,PATH...], or SET:train, SET:test")->required();
  app.add_option("TO", asked.to, "KIND:PATH (idx: images,labels)")->required();
  app.add_option("--mean", asked.mean, "Write the mean of each number there too, as SINGA's mean record");
  app.add_option("--type", asked.type, "Of the new numbers: uint8, float32...; otherwise what fits");
  app.add_option("--shape", asked.in.shape, "Of a record, for text; images: scaled to it")->delimiter(',');
  app.add_option("--to-shape", asked.out_shape, "Of a new record, of as many numbers")->delimiter(',');
  app.add_option("--classes", asked.in.classes, "Labels must be less");
  app.add_flag("!--no-label", asked.in.label, "Without labels");
  app.add_flag("--header", asked.in.header, "csv: the first line has names");
  app.add_option("--separator", asked.separator, "csv, textfile: of what is read")->capture_default_str();
  app.add_option("--to-separator", asked.to_separator, "csv, textfile: of what is written")->capture_default_str();
  app.add_option("--datasets", asked.in.datasets, "hdf5: names of data and labels")->delimiter(',');
  app.add_option("--class-names", asked.class_names, "images: folders by label, to write")->delimiter(',');
  app.add_option("--digits", asked.digits, "kvfile, lmdb: of the keys")->capture_default_str();
  bool done = false;
  if (const int code = cli::parse(app, words, done); done) return code;
  return convert(std::move(asked));
}
