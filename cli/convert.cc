// The command `pleiad convert`: converts a store to another kind.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>

#include "command_line.h"
#include "core/text.h"
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
struct StoreLocation {
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

StoreLocation parse_location(const std::string& text, const char* example) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon + 1 == text.size()) {
    throw InvalidArgument(fmt::format("expected KIND:PATH, for example {}; received \"{}\"", example, text));
  }
  return {.kind = text.substr(0, colon), .paths = split(text.substr(colon + 1), ',')};
}

std::unique_ptr<Store> open(const std::string& from, StoreOptions options) {
  const StoreLocation location = parse_location(from, "idx:images,labels");
  const std::vector<std::string> sets = dataset_names();
  if (std::ranges::find(sets, location.kind) != sets.end() &&
      (location.paths[0] == "train" || location.paths[0] == "test")) {
    return open_dataset({.name = location.kind, .part = location.paths[0]});
  }
  options.kind = location.kind;
  options.paths = location.paths;
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
FieldType choose_type(const std::string& args, FieldType stored, const std::string& kind) {
  if (const auto type = type_named(args)) return *type;
  const bool bytes = kind == "idx" || kind == "cifar10" || kind == "images";
  if (bytes) return FieldType::uint8;
  if (kind == "hdf5" || stored == FieldType::uint8) return stored;
  return FieldType::float32;
}

struct ConvertOptions {
  std::string from, to, type, mean, separator = ",", to_separator = ",";
  StoreOptions in;
  std::vector<std::int64_t> out_shape;
  Words class_names;
  int digits = 8;
};

int convert(ConvertOptions args) {
  const auto one = [](const std::string& text) {
    if (text.size() != 1)
      throw InvalidArgument(fmt::format("a separator must be one character; received \"{}\"", text));
    return text[0];
  };
  args.in.separator = one(args.separator);
  const StoreLocation location = parse_location(args.to, "kvfile:train.bin");
  const std::unique_ptr<Store> store = open(args.from, args.in);
  const std::size_t data = store->field("data");
  WriterOptions options{.kind = location.kind, .paths = location.paths, .data = store->fields()[data]};
  options.data.type = choose_type(args.type, options.data.type, location.kind);
  if (!args.out_shape.empty()) options.data.shape = args.out_shape;
  options.label = store->fields().size() > 1;
  options.separator = one(args.to_separator);
  options.key_digits = args.digits;
  options.class_names = args.class_names;

  std::signal(SIGINT, [](int) { interrupted = true; });
  {
    const std::unique_ptr<StoreWriter> writer = create_store(options);
    cli::Progress progress;
    const auto start = std::chrono::steady_clock::now();
    const bool done = copy_store(*store, *writer, [&](std::int64_t records) {
      progress.show(static_cast<double>(records) / static_cast<double>(store->size()), [&] {
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const double rate = static_cast<double>(records) / std::max(seconds, 1e-9);
        return fmt::format("converted {} of {} records, {} a second", grouped(records), grouped(store->size()),
                           grouped(static_cast<std::int64_t>(rate)));
      });
      return !interrupted.load();
    });
    if (!done) {
      fmt::print(stderr, "pleiad convert: stopped; {} was not written\n", join(location.paths));
      return kInterrupted;
    }
  }
  std::signal(SIGINT, SIG_DFL);
  fmt::print("{}: {} records of {}, {}{}\n", join(location.paths), grouped(store->size()), name_of(options.data.type),
             fmt::join(options.data.shape, " x "), options.label ? ", with labels" : "");
  if (!args.mean.empty()) {
    write_mean(args.mean, options.data.shape, statistics_of(*store, data, true).mean);
    fmt::print("{}: the mean of each value\n", args.mean);
  }
  return 0;
}

}  // namespace

int pleiad::cli::run_convert(const Words& words) {
  ConvertOptions args;
  CLI::App app("Convert a store to another kind. The new store appears only when it is complete.", "pleiad convert");
  app.footer(
      fmt::format("Kinds to read: {}; to write: {}.\nData sets by name: fashion-mnist:train, cifar10:test...\n"
                  "  pleiad convert fashion-mnist:train kvfile:train.bin --mean mean.bin",
                  join(store_kinds()), join(writable_kinds())));
  app.add_option("FROM", args.from, "KIND:PATH[,PATH...], or SET:train, SET:test")->required();
  app.add_option("TO", args.to, "KIND:PATH (idx: images,labels)")->required();
  app.add_option("--mean", args.mean, "Also write the mean of each value to this file, as a SINGA mean record");
  app.add_option("--type", args.type,
                 "Element type of the new records: uint8, float32, ...; default: chosen for the kind");
  app.add_option("--shape", args.in.shape, "Shape of a record, for text formats; images are scaled to it")
      ->delimiter(',');
  app.add_option("--to-shape", args.out_shape, "Shape of a new record, with the same number of values")->delimiter(',');
  app.add_option("--classes", args.in.classes, "Number of classes; labels must be less than this");
  app.add_flag("!--no-label", args.in.label, "Do not read labels");
  app.add_flag("--header", args.in.header, "csv: the first line contains column names");
  app.add_option("--separator", args.separator, "csv, textfile: separator of the input")->capture_default_str();
  app.add_option("--to-separator", args.to_separator, "csv, textfile: separator of the output")->capture_default_str();
  app.add_option("--datasets", args.in.datasets, "hdf5: names of the datasets with data and labels")->delimiter(',');
  app.add_option("--class-names", args.class_names, "images: names of the folders to write, by label")->delimiter(',');
  app.add_option("--digits", args.digits, "kvfile, lmdb: number of digits of a key")->capture_default_str();
  bool done = false;
  if (const int code = cli::parse(app, words, done); done) return code;
  return convert(std::move(args));
}
