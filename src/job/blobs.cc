#include "job/blobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "core/text.h"
#include "file/atomic.h"
#include "file/safetensors.h"
#include "file/series.h"
#include "pleiad/train.h"

namespace pleiad::job {
namespace {

namespace fs = std::filesystem;

/// Splits "0#w1" into 0 and "w1".
std::pair<int, std::string> partition_and_name(const std::string& name) {
  const std::size_t mark = name.find('#');
  const bool numbered = mark != std::string::npos && mark > 0 && mark < 9 &&
                        std::all_of(
                            name.begin(), name.begin() + static_cast<std::ptrdiff_t>(mark),
                            [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!numbered) return {0, name};
  return {std::stoi(name.substr(0, mark)), name.substr(mark + 1)};
}

using Parts = std::map<int, const BlobProto*>;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (!file.good() && !file.eof()) throw FileError(fmt::format("{}: cannot be read", path));
  return bytes;
}

BlobProtos parse(const std::string& path) {
  if (!fs::exists(path)) {
    const fs::path folder = fs::path(path).parent_path();
    const std::string writer = folder.filename() != "checkpoint"
                                   ? ""
                                   : fmt::format("; the job whose workspace is {} writes it",
                                                 folder.has_parent_path() ? folder.parent_path().string() : ".");
    throw FileError(fmt::format("{}: no such checkpoint{}", path, writer));
  }
  BlobProtos blobs;
  if (!blobs.ParseFromString(bytes_of(path))) throw FileError(fmt::format("{}: is not a SINGA checkpoint", path));
  if (blobs.name_size() != blobs.blob_size()) {
    throw FileError(fmt::format("{}: has {} names for {} blobs", path, blobs.name_size(), blobs.blob_size()));
  }
  return blobs;
}

/// Copies the elements of a parameter between SINGA's order and ours; `to_ours` selects the direction.
void reorder(const NamedParameter& named, const Shape& shape, const float* from, float* to, bool to_ours) {
  const auto put = [&](std::int64_t ours, std::int64_t theirs) {
    if (to_ours) {
      to[ours] = from[theirs];
    } else {
      to[theirs] = from[ours];
    }
  };
  if (named.filters) {
    const std::int64_t filters = shape[0], h = shape[1], w = shape[2], c = shape[3];
    for (std::int64_t f = 0; f < filters; ++f)
      for (std::int64_t y = 0; y < h; ++y)
        for (std::int64_t x = 0; x < w; ++x)
          for (std::int64_t k = 0; k < c; ++k) put(((f * h + y) * w + x) * c + k, ((f * c + k) * h + y) * w + x);
    return;
  }
  if (named.image.rank() == 3) {
    const std::int64_t places = named.image[0] * named.image[1], channels = named.image[2];
    const std::int64_t out = shape.count() / (places * channels);
    for (std::int64_t p = 0; p < places; ++p) {
      for (std::int64_t k = 0; k < channels; ++k) {
        const std::int64_t ours = p * channels + k, theirs = k * places + p;
        for (std::int64_t o = 0; o < out; ++o) {
          if (named.transposed) {
            put(ours * out + o, theirs * out + o);
          } else {
            put(o * places * channels + ours, o * places * channels + theirs);
          }
        }
      }
    }
    return;
  }
  std::copy(from, from + named.count, to);
}

/// Concatenates all partitions of a parameter.
std::vector<float> joined(const Parts& parts) {
  std::vector<float> all;
  for (const auto& [number, blob] : parts) all.insert(all.end(), blob->data().begin(), blob->data().end());
  return all;
}

constexpr std::size_t kNamesShown = 12;

std::string shown_names(std::vector<std::string> names) {
  if (names.empty()) return "nothing";
  const std::size_t more = names.size() > kNamesShown ? names.size() - kNamesShown : 0;
  names.resize(names.size() - more);
  return printable(join(names)) + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string names_of(const JobNet& built) {
  std::vector<std::string> names;
  for (const NamedParameter& named : built.parameters) names.push_back(named.name);
  return shown_names(std::move(names));
}

std::string names_in(const std::map<std::string, Parts>& by_name) {
  std::vector<std::string> names;
  for (const auto& [name, parts] : by_name) names.push_back(name);
  return shown_names(std::move(names));
}

/// The parameters that files provide, and their values. All files are read before the net is changed.
class LoadedParameters {
 public:
  explicit LoadedParameters(const JobNet& built) : built_(built) {}

  /// Reads the parameters of a file. If several files have a parameter, the last one counts.
  void take(const BlobProtos& blobs, const std::string& path) {
    std::map<std::string, Parts> by_name;
    for (int i = 0; i < blobs.name_size(); ++i) {
      const auto [partition, name] = partition_and_name(blobs.name(i));
      by_name[name][partition] = &blobs.blob(i);
    }
    if (std::ranges::none_of(built_.parameters,
                             [&](const NamedParameter& named) { return by_name.contains(named.name); })) {
      throw FileError(fmt::format("{}: has none of the net's parameters, which are {}; it has {}", path,
                                  names_of(built_), names_in(by_name)));
    }
    for (const NamedParameter& named : built_.parameters) {
      const auto parts = by_name.find(named.name);
      if (parts == by_name.end()) continue;
      std::vector<float> numbers = joined(parts->second);
      if (static_cast<std::int64_t>(numbers.size()) != named.count) {
        throw FileError(fmt::format("{}: \"{}\" has {} values; the net's {} has {}", path, named.name, numbers.size(),
                                    named.parameter, named.count));
      }
      values_.emplace_back(&named, std::move(numbers));
      if (std::ranges::find(names_, named.name) == names_.end()) names_.push_back(named.name);
    }
  }
  /// Marks all parameters as found; they were loaded in another way.
  void all() {
    for (const NamedParameter& named : built_.parameters) names_.push_back(named.name);
  }

  std::vector<std::string> put(nn::Net& net) {
    for (const auto& [named, numbers] : values_) {
      const Tensor& to = net.parameter(named->parameter).value;
      reorder(*named, to.shape(), numbers.data(), to.values<float>().data() + named->begin, true);
    }
    return std::move(names_);
  }

 private:
  const JobNet& built_;
  std::vector<std::string> names_;
  std::vector<std::pair<const NamedParameter*, std::vector<float>>> values_;
};

BlobProtos blobs_of(const JobNet& built, const nn::Net& net, std::int64_t step) {
  BlobProtos blobs;
  int id = 0;
  for (const NamedParameter& named : built.parameters) {
    const auto& all = net.parameters();
    const auto parameter = std::ranges::find(all, named.parameter, &nn::Parameter::name);
    const Tensor& value = parameter->value;
    blobs.add_id(id++);
    blobs.add_version(static_cast<int>(step));
    blobs.add_name("0#" + named.name);
    BlobProto* const blob = blobs.add_blob();
    if (named.filters) {
      blob->add_shape(static_cast<int>(value.shape()[0]));
      blob->add_shape(static_cast<int>(value.count() / value.shape()[0]));
    } else {
      Shape shape = value.shape();
      shape.set(0, shape[0] * named.count / value.count());
      for (const std::int64_t length : shape) blob->add_shape(static_cast<int>(length));
    }
    blob->mutable_data()->Resize(static_cast<int>(named.count), 0);
    reorder(named, value.shape(), value.values<float>().data() + named.begin, blob->mutable_data()->mutable_data(),
            false);
  }
  return blobs;
}

}  // namespace

std::vector<std::string> load_blobs(const JobNet& built, nn::Net& net, const std::vector<std::string>& paths,
                                    std::int64_t* step) {
  LoadedParameters found(built);
  for (const std::string& path : paths) {
    if (fs::is_directory(path)) {  // a checkpoint that Pleiad wrote
      load_parameters(net, path);
      found.all();
    } else {
      const BlobProtos blobs = parse(path);
      found.take(blobs, path);
      for (const std::int64_t version : blobs.version()) {
        if (step != nullptr) *step = std::max(*step, version);
      }
    }
  }
  return found.put(net);
}

void save_blobs(const JobNet& built, const nn::Net& net, const std::string& path, std::int64_t step) {
  const std::string bytes = blobs_of(built, net, step).SerializeAsString();
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) make_folder(folder);
  write_whole_file(path, std::as_bytes(std::span(bytes)));
}

void export_blobs(const JobNet& built, const nn::Net& net, const std::string& path) {
  const BlobProtos blobs = blobs_of(built, net, 0);
  std::vector<ArrayToWrite> arrays;
  for (int i = 0; i < blobs.name_size(); ++i) {
    const BlobProto& blob = blobs.blob(i);
    arrays.push_back(
        {.name = partition_and_name(blobs.name(i)).second,
         .type = element_type(DType::float32),
         .shape = {blob.shape().begin(), blob.shape().end()},
         .bytes = std::as_bytes(std::span(blob.data().data(), static_cast<std::size_t>(blob.data_size())))});
  }
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) make_folder(folder);
  write_safetensors(path, arrays, {{"format", "singa"}});
}

std::vector<std::string> import_blobs(const JobNet& built, nn::Net& net, const std::string& path) {
  const Safetensors file{fs::path(path)};
  const auto known = [&](const ArrayEntry& array) {
    return std::ranges::find(built.parameters, array.name, &NamedParameter::name) != built.parameters.end();
  };
  if (std::ranges::none_of(file.arrays(), known)) return {};
  const auto has = [&](const std::string& name) {
    return std::ranges::find(file.arrays(), name, &ArrayEntry::name) != file.arrays().end();
  };
  const auto format = file.metadata().find("format");
  if (format != file.metadata().end() && format->second != "singa" &&
      (std::ranges::all_of(net.parameters(), has, &nn::Parameter::name) ||
       std::ranges::all_of(nn::torch_state(net), has, &nn::NamedTensors::value_type::first))) {
    return {};
  }
  BlobProtos blobs;
  for (const ArrayEntry& array : file.arrays()) {
    if (!known(array)) continue;
    if (dtype_of_name(array.type.name) != DType::float32) {
      throw FileError(fmt::format("{}: \"{}\" is {}; expected F32", path, array.name, array.type.name));
    }
    blobs.add_name(array.name);
    auto* const data = blobs.add_blob()->mutable_data();
    data->Resize(static_cast<int>(array.bytes.size() / sizeof(float)), 0);
    std::memcpy(data->mutable_data(), array.bytes.data(), array.bytes.size());
  }
  check_mapped_reads();
  LoadedParameters found(built);
  found.take(blobs, path);
  return found.put(net);
}

void expect_all(const JobNet& built, const std::vector<std::string>& found, const std::string& path) {
  std::vector<std::string> missing;
  for (const NamedParameter& named : built.parameters) {
    if (std::ranges::find(found, named.name) == found.end()) missing.push_back(fmt::format("\"{}\"", named.name));
  }
  if (missing.empty()) return;
  throw FileError(fmt::format("{}: {} of the net's {} parameters {} missing: {}", path, missing.size(),
                              built.parameters.size(), missing.size() == 1 ? "is" : "are", join(missing)));
}

void expect_loaded(const JobImpl& job, const JobNet& built, const std::vector<std::string>& found) {
  for (const NamedParameter& named : built.parameters) {
    if (!named.needs_file || std::ranges::find(found, named.name) != found.end()) continue;
    const std::vector<std::string> paths(job.proto.checkpoint_path().begin(), job.proto.checkpoint_path().end());
    throw_invalid(job, named.layer, fmt::format("param[{}]", named.index),
                  fmt::format("\"{}\" has no init, and {}", named.name,
                              paths.empty() ? std::string("checkpoint_path names no checkpoint to read it from")
                                            : fmt::format("none of the checkpoints contains it: {}", join(paths))));
  }
}

}  // namespace pleiad::job
