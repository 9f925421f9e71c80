#include "inspect.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "file/saved_set.h"
#include "inspect_singa.h"
#include "pleiad/error.h"

namespace pleiad::cli {

namespace {

namespace fs = std::filesystem;

struct Line {
  std::string name;
  ElementType type;
  std::vector<std::int64_t> shape;
  std::string numbers;
};

template <class T>
std::string summary(std::span<const std::byte> bytes) {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  double sum = 0;
  std::size_t odd = 0;
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof value);
    const auto number = static_cast<double>(value);
    if (!std::isfinite(number)) {
      ++odd;
      continue;
    }
    least = std::min(least, number);
    greatest = std::max(greatest, number);
    sum += number;
  }
  if (count == 0) return "empty";
  const std::string not_finite = odd > 0 ? fmt::format("; {} not finite", grouped(static_cast<std::int64_t>(odd))) : "";
  if (odd == count) return "nothing finite";
  return fmt::format("{:.6g} to {:.6g}, mean {:.6g}{}", least, greatest, sum / static_cast<double>(count - odd),
                     not_finite);
}

std::string summary(ElementType type, std::span<const std::byte> bytes) {
  const auto dtype = dtype_of_name(type.name);
  if (!dtype) return "";
  switch (*dtype) {
    case DType::float32: return summary<float>(bytes);
    case DType::float64: return summary<double>(bytes);
    case DType::int32: return summary<std::int32_t>(bytes);
    case DType::int64: return summary<std::int64_t>(bytes);
  }
  return "";
}

void print(const std::vector<Line>& lines) {
  std::size_t widest = 5;
  for (const Line& line : lines) widest = std::max(widest, printable(line.name).size());
  for (const Line& line : lines) {
    const std::string shape = fmt::format("{}", fmt::join(line.shape, " x "));
    fmt::print("  {:<{}}  {:<5} {:<16} {:>10}{}{}\n", printable(line.name), widest, line.type.name, shape,
               byte_size(static_cast<std::uint64_t>(array_bytes(line.type, line.shape).value_or(0))),
               line.numbers.empty() ? "" : "  ", line.numbers);
  }
}

std::string summary_of_net(const std::string& text) {
  const auto net = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!net.is_object() || !net.contains("layers")) return fmt::format("{} characters", text.size());
  return fmt::format("{} layers", net["layers"].size());
}

void print(const Metadata& metadata, const InspectOptions& options) {
  for (const auto& [key, value] : metadata) {
    if (key == "net" && !options.net) {
      fmt::print("  net = {} (--net prints them)\n", summary_of_net(value));
    } else {
      fmt::print("  {} = {}\n", printable(key), printable(value, true));
    }
  }
}

/// Prints how many arrays and values follow.
void print_totals(const std::vector<Line>& lines) {
  std::int64_t values = 0;
  for (const Line& line : lines) {
    values += std::accumulate(line.shape.begin(), line.shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  fmt::print("  {} array{}, {} values\n", lines.size(), lines.size() == 1 ? "" : "s", grouped(values));
}

int inspect_set(const InspectOptions& options) {
  const SavedSet set(options.path);
  const Manifest& manifest = set.manifest();
  std::int64_t bytes = 0;
  for (const PartEntry& part : manifest.parts) bytes += part.written.bytes;
  fmt::print("{}: {} in {} part{}, {}\n", options.path.string(), printable(manifest.kind), manifest.parts.size(),
             manifest.parts.size() == 1 ? "" : "s", byte_size(static_cast<std::uint64_t>(bytes)));
  std::vector<Line> lines;
  for (const std::string& name : set.names()) {
    const SavedSet::Array& array = set.at(name);
    lines.push_back({.name = name, .type = array.type, .shape = array.shape, .numbers = {}});
    if (!options.numbers) continue;
    std::vector<std::byte> content(static_cast<std::size_t>(array_bytes(array.type, array.shape).value_or(0)));
    set.read(name, content);
    lines.back().numbers = summary(array.type, content);
  }
  print_totals(lines);
  print(manifest.metadata, options);
  fmt::print("arrays:\n");
  print(lines);
  if (options.verify) {
    set.verify();
    fmt::print("every part matches the size and checksum in the manifest\n");
  }
  return 0;
}

int inspect_singa(const InspectOptions& options, const std::vector<SingaParameter>& parameters) {
  std::int64_t step = 0;
  for (const SingaParameter& parameter : parameters) step = std::max(step, parameter.version);
  fmt::print("{}: checkpoint of SINGA, {} parameters, step {}\n", options.path.string(), parameters.size(), step);
  std::vector<Line> lines;
  for (const SingaParameter& parameter : parameters) {
    const auto bytes = std::as_bytes(std::span(parameter.values));
    const ElementType type = element_type(DType::float32);
    const bool fits = array_bytes(type, parameter.shape) == static_cast<std::int64_t>(bytes.size());
    lines.push_back({.name = parameter.name,
                     .type = type,
                     .shape = parameter.shape,
                     .numbers = options.numbers ? summary(type, bytes) : ""});
    if (!fits) {
      throw FileError(fmt::format("{}: \"{}\" has {} values; its shape is {}", options.path.string(), parameter.name,
                                  parameter.values.size(), fmt::join(parameter.shape, " x ")));
    }
  }
  print(lines);
  return 0;
}

int inspect_file(const InspectOptions& options) {
  if (const auto parameters = read_singa_checkpoint(options.path)) return inspect_singa(options, *parameters);
  const Safetensors file(options.path);
  std::vector<Line> lines;
  for (const ArrayEntry& array : file.arrays()) {
    lines.push_back({.name = array.name,
                     .type = array.type,
                     .shape = array.shape,
                     .numbers = options.numbers ? summary(array.type, array.bytes) : ""});
  }
  check_mapped_reads();
  fmt::print("{}: safetensors\n", options.path.string());
  print_totals(lines);
  print(file.metadata(), options);
  fmt::print("arrays:\n");
  print(lines);
  return 0;
}

}  // namespace

int inspect(const InspectOptions& options) {
  if (!fs::exists(options.path)) throw FileError(fmt::format("{}: does not exist", options.path.string()));
  if (!fs::is_directory(options.path)) return inspect_file(options);
  if (fs::exists(options.path / Manifest::kFile)) return inspect_set(options);
  std::vector<fs::path> sets;
  for (const auto& entry : fs::directory_iterator(options.path)) {
    if (fs::exists(entry.path() / Manifest::kFile)) sets.push_back(entry.path());
  }
  if (sets.empty()) {
    throw FileError(
        fmt::format("{}: contains neither a {} nor folders with one", options.path.string(), Manifest::kFile));
  }
  std::ranges::sort(sets);
  for (const fs::path& path : sets) {
    const Manifest manifest = Manifest::read(path);
    const auto said = [&](const char* key) {
      const auto found = manifest.metadata.find(key);
      return found == manifest.metadata.end() ? std::string("?") : printable(found->second);
    };
    fmt::print("{}: {}, step {}, saved {} by {} ranks\n", path.string(), printable(manifest.kind), said("step"),
               said("saved"), said("ranks"));
  }
  return 0;
}

}  // namespace pleiad::cli
