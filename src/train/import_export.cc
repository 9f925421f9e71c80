// Exports and imports parameters in the file formats of other programs.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/text.h"
#include "file/safetensors.h"
#include "pleiad/error.h"
#include "pleiad/train.h"
#include "train/torch_file.h"

namespace pleiad {

namespace {

nn::NamedTensors own_state(const nn::Net& net) {
  nn::NamedTensors all;
  for (const nn::Parameter& parameter : net.parameters()) all.emplace_back(parameter.name, parameter.value);
  for (const auto& state : net.states()) all.push_back(state);
  return all;
}

nn::NamedTensors read_safetensors(const std::string& path) {
  const Safetensors file{std::filesystem::path(path)};
  nn::NamedTensors all;
  for (const ArrayEntry& array : file.arrays()) {
    const auto dtype = dtype_of_name(array.type.name);
    if (!dtype) {
      throw FileError(
          fmt::format("{}: \"{}\" is {}; expected F32, F64, I32 or I64", path, array.name, array.type.name));
    }
    if (array.shape.size() > Shape::kMaxRank) {
      throw FileError(fmt::format("{}: \"{}\" has {} axes; expected at most {}", path, array.name, array.shape.size(),
                                  Shape::kMaxRank));
    }
    const Tensor copy(*dtype, Shape(array.shape));
    if (!array.bytes.empty()) std::memcpy(copy.raw(), array.bytes.data(), array.bytes.size());
    all.emplace_back(array.name, copy);
  }
  check_mapped_reads();
  return all;
}

/// Checks all tensors before it changes any.
void load_own_state(const nn::Net& net, const nn::NamedTensors& state, const std::string& path) {
  std::vector<std::pair<Tensor, Tensor>> pairs;
  for (const auto& [name, own] : own_state(net)) {
    const auto found = std::ranges::find(state, name, [](const auto& pair) { return pair.first; });
    if (found == state.end()) throw FileError(fmt::format("{}: \"{}\" is missing", path, name));
    const Tensor& tensor = found->second;
    if (tensor.dtype() != own.dtype() || tensor.shape() != own.shape()) {
      throw FileError(fmt::format("{}: \"{}\" is {} of shape {}; expected {} of shape {}", path, name,
                                  name_of(tensor.dtype()), tensor.shape().text(), name_of(own.dtype()),
                                  own.shape().text()));
    }
    pairs.emplace_back(own, tensor);
  }
  for (const auto& [own, tensor] : pairs) own.copy_from(tensor);
}

}  // namespace

void export_parameters(const nn::Net& net, const std::string& path, Choice<ParameterLayout> layout) {
  const bool torch = layout == ParameterLayout::torch;
  const nn::NamedTensors state = torch ? nn::torch_state(net) : own_state(net);
  std::vector<ArrayToWrite> arrays;
  for (const auto& [name, tensor] : state) {
    arrays.push_back({.name = name,
                      .type = element_type(tensor.dtype()),
                      .shape = {tensor.shape().begin(), tensor.shape().end()},
                      .bytes = {static_cast<const std::byte*>(tensor.raw()), tensor.bytes()}});
  }
  // PyTorch's readers check the key "format".
  const Metadata metadata = {{"format", torch ? "pt" : "pleiad"}};
  write_safetensors(path, arrays, metadata);
}

void import_parameters(nn::Net& net, const std::string& path,
                       const std::vector<std::pair<std::string, std::string>>& modules) {
  const nn::NamedTensors state = is_torch_file(path) ? read_torch_file(path) : read_safetensors(path);
  const nn::NamedTensors own = own_state(net);
  const bool ours =
      !own.empty() && std::ranges::any_of(state, [&](const auto& pair) { return pair.first == own[0].first; });
  if (ours) return load_own_state(net, state, path);
  try {
    nn::load_torch_state(net, state, modules);
  } catch (const InvalidArgument& mistake) {
    throw FileError(fmt::format("{}: {}", path, mistake.what()));
  }
}

}  // namespace pleiad
