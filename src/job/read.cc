#include "job/read.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "core/text.h"
#include "job/enums.h"
#include "kernel/device.h"

namespace pleiad {
namespace {

namespace pb = google::protobuf;

/// Keeps the first error of a parse and its line.
class FirstError final : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber /*column*/, const std::string& message) override {
    if (line_ < -1) {
      line_ = line;
      message_ = message;
    }
  }
  void AddWarning(int, pb::io::ColumnNumber, const std::string&) override {}
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  int line_ = -2;
  std::string message_;
};

/// Returns the text between the n-th pair of quotes, counted from 0.
std::string quoted(const std::string& text, int n) {
  std::size_t at = 0;
  for (int i = 0; i < 2 * n + 1; ++i) at = text.find('"', at) + 1;
  return text.substr(at, text.find('"', at) - at);
}

/// Returns protobuf's message if it is clear, else a message with the nearest known name.
std::string clear_message(const std::string& message) {
  const auto* const pool = pb::DescriptorPool::generated_pool();
  if (message.starts_with("Message type \"") && message.find("has no field named") != std::string::npos) {
    const pb::Descriptor* type = pool->FindMessageTypeByName(quoted(message, 0));
    if (type != nullptr) {
      std::vector<std::string> known;
      for (int i = 0; i < type->field_count(); ++i) known.push_back(type->field(i)->name());
      return fmt::format("{}: {}", type->name(), unknown_name("field", quoted(message, 1), known));
    }
  }
  if (constexpr std::string_view strange = "Interpreting non ascii codepoint "; message.starts_with(strange)) {
    return fmt::format("the byte {} is not allowed in a job",
                       message.substr(strange.size(), message.size() - strange.size() - 1));
  }
  return message;
}

/// Returns the line and the message for the first mistake in a text. Protobuf reports an unknown enumeration value with
/// the line of the next word and without the known values.
std::pair<int, std::string> message_of(const FirstError& error, const std::string& text) {
  if (error.message().starts_with("Unknown enumeration value of \"")) {
    if (const auto wrong = job::find_wrong_enum(text)) {
      return {wrong->line, fmt::format("{}: {}", wrong->field, unknown_name("value", wrong->word, wrong->known))};
    }
  }
  return {error.line(), clear_message(error.message())};
}

/// Splits "layer[3]" into "layer" and 3; the index is -1 if there is none.
std::pair<std::string, int> name_and_index(const std::string& step) {
  const std::size_t open = step.find('[');
  if (open == std::string::npos) return {step, -1};
  int index = 0;
  std::from_chars(step.data() + open + 1, step.data() + step.size() - 1, index);
  return {step.substr(0, open), index};
}

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> steps;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t dot = std::min(path.find('.', at), path.size());
    if (dot > at) steps.push_back(path.substr(at, dot - at));
    at = dot + 1;
  }
  return steps;
}

}  // namespace

std::string Job::Impl::at(const std::vector<std::string>& path) const {
  if (!lines) return where;
  const pb::Descriptor* type = job::JobProto::descriptor();
  const pb::TextFormat::ParseInfoTree* tree = &places;
  int line = -1;
  for (const std::string& step : path) {
    const auto [name, given] = name_and_index(step);
    const pb::FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByName(name);
    if (field == nullptr || tree == nullptr) break;
    const int index = field->is_repeated() ? std::max(given, 0) : -1;
    const pb::TextFormat::ParseLocation place = tree->GetLocation(field, index);
    if (place.line < 0) break;
    line = place.line;
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) break;
    type = field->message_type();
    tree = tree->GetTreeForNested(field, index);
  }
  return line < 0 ? where : fmt::format("{}:{}", where, line + 1);
}

namespace job {

std::vector<std::string> layer_path(const JobImpl& job, int index) {
  if (!job.layer_paths.empty()) return job.layer_paths.at(static_cast<std::size_t>(index));
  return {"neuralnet", fmt::format("layer[{}]", index)};
}

void throw_invalid(const JobImpl& job, const std::string& path, const std::string& text) {
  throw InvalidArgument(fmt::format("{}: {}: {}", job.at(split_path(path)), path, text));
}

void throw_invalid(const JobImpl& job, int index, const std::string& field, const std::string& text) {
  std::vector<std::string> path = layer_path(job, index);
  for (const std::string& step : split_path(field)) path.push_back(step);
  throw InvalidArgument(fmt::format("{}: layer \"{}\"{}{}: {}", job.at(path), job.proto.neuralnet().layer(index).name(),
                                    field.empty() ? "" : ", ", field, text));
}

void expect_at_least(const JobImpl& job, int index, const std::string& field, std::int64_t value, std::int64_t least) {
  if (value < least) throw_invalid(job, index, field, fmt::format("expected {} or more; received {}", least, value));
}

void expect_finite(const JobImpl& job, int index, const std::string& field, double value) {
  if (!std::isfinite(value))
    throw_invalid(job, index, field, fmt::format("expected a finite number; received {}", value));
}

namespace {

/// Returns the layer with the phases of its kPrefetch, unless it specifies phases itself.
LayerProto with_prefetch_phases(const LayerProto& prefetch, const LayerProto& inside) {
  LayerProto own = inside;
  if (own.include_size() == 0 && own.exclude_size() == 0) {
    *own.mutable_include() = prefetch.include();
    *own.mutable_exclude() = prefetch.exclude();
  }
  return own;
}

/// Replaces each kPrefetch layer by the layers inside it. Layers that name a kPrefetch as a source take the last of
/// them.
void unwrap_prefetch(JobImpl& job) {
  const NetProto& net = job.proto.neuralnet();
  if (std::ranges::none_of(net.layer(), [](const LayerProto& layer) { return layer.type() == kPrefetch; })) return;
  NetProto flat = net;
  flat.clear_layer();
  std::map<std::string, std::string> last;
  std::vector<std::vector<std::string>> paths;
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerProto& layer = net.layer(i);
    if (layer.type() != kPrefetch) {
      *flat.add_layer() = layer;
      paths.push_back({"neuralnet", fmt::format("layer[{}]", i)});
      continue;
    }
    const auto& inside = layer.prefetch_conf().sublayers();
    if (inside.empty())
      throw_invalid(job, i, "prefetch_conf.sublayers", "expected the layers that provide records; received none");
    for (int k = 0; k < inside.size(); ++k) {
      if (inside[k].type() == kPrefetch)
        throw_invalid(job, i, fmt::format("prefetch_conf.sublayers[{}]", k), "expected no kPrefetch inside another");
      *flat.add_layer() = with_prefetch_phases(layer, inside[k]);
      paths.push_back({"neuralnet", fmt::format("layer[{}]", i), "prefetch_conf", fmt::format("sublayers[{}]", k)});
    }
    last[layer.name()] = inside[inside.size() - 1].name();
  }
  for (LayerProto& layer : *flat.mutable_layer()) {
    for (std::string& from : *layer.mutable_srclayers()) {
      if (const auto found = last.find(from); found != last.end() && found->second != layer.name())
        from = found->second;
    }
  }
  job.written = job.proto;
  *job.proto.mutable_neuralnet() = std::move(flat);
  job.layer_paths = std::move(paths);
}

/// Requires one device per worker, each known to a back end.
void check_devices(const JobImpl& job, std::int64_t workers) {
  const auto& ids = job.proto.gpu();
  std::vector<std::string> words;
  for (const int id : ids) words.push_back(fmt::format("{}", id));
  if (ids.size() != workers) {
    throw_invalid(job, "gpu",
                  fmt::format("expected a device for each of {} worker{}; received {}: {}", workers,
                              workers == 1 ? "" : "s", ids.size(), join(words)));
  }
  for (const int id : ids) {
    try {
      kernel::expect_device(id);
    } catch (const InvalidArgument& error) {
      throw_invalid(job, "gpu", error.what());
    }
  }
}

/// Checks what every job needs.
void check(const JobImpl& job) {
  const JobProto& p = job.proto;
  if (!p.has_name()) throw_invalid(job, "name", "expected a name; received none");
  if (p.neuralnet().layer_size() == 0) throw_invalid(job, "neuralnet", "expected at least one layer; received none");
  if (p.cluster().workspace().empty()) throw_invalid(job, "cluster.workspace", "expected a folder; received none");
  const auto at_least = [&](const char* path, std::int64_t value, std::int64_t least) {
    if (value < least) throw_invalid(job, path, fmt::format("expected {} or more; received {}", least, value));
  };
  at_least("train_steps", p.train_steps(), 0);
  at_least("disp_freq", p.disp_freq(), 0);
  at_least("test_freq", p.test_freq(), 0);
  at_least("test_steps", p.test_steps(), 0);
  at_least("validate_freq", p.validate_freq(), 0);
  at_least("validate_steps", p.validate_steps(), 0);
  at_least("checkpoint_freq", p.checkpoint_freq(), 0);
  at_least("checkpoint_after", p.checkpoint_after(), 0);
  at_least("disp_after", p.disp_after(), 0);
  at_least("test_after", p.test_after(), 0);
  at_least("validate_after", p.validate_after(), 0);
  at_least("train_one_batch.cd_conf.cd_k", p.train_one_batch().cd_conf().cd_k(), 1);
  const ClusterProto& c = p.cluster();
  at_least("cluster.nworker_groups", c.nworker_groups(), 1);
  at_least("cluster.nserver_groups", c.nserver_groups(), 1);
  at_least("cluster.nworkers_per_group", c.nworkers_per_group(), 1);
  at_least("cluster.nservers_per_group", c.nservers_per_group(), 1);
  at_least("cluster.nworkers_per_procs", c.nworkers_per_procs(), 1);
  at_least("cluster.nservers_per_procs", c.nservers_per_procs(), 1);
  at_least("cluster.sync_freq", c.sync_freq(), 1);
  constexpr std::int64_t kMost = 4096;
  const std::int64_t workers = std::int64_t{c.nworker_groups()} * c.nworkers_per_group();
  if (workers > kMost) {
    throw_invalid(job, "cluster.nworker_groups",
                  fmt::format("expected at most {} workers; received {}", kMost, workers));
  }
  if (p.gpu_size() > 0) check_devices(job, workers);
  for (int i = 0; i < p.neuralnet().layer_size(); ++i) {
    const LayerProto& layer = p.neuralnet().layer(i);
    if (layer.name().empty()) throw_invalid(job, i, "name", "expected a name; received none");
    if (layer.name().find_first_of(":/") != std::string::npos) {
      throw_invalid(job, i, "name", "expected a name without : and /");
    }
    if (layer.include_size() > 0 && layer.exclude_size() > 0) {
      throw_invalid(job, i, "exclude", "expected include or exclude; received both");
    }
  }
}

}  // namespace
}  // namespace job

Job Job::from_text(const std::string& text, const std::string& where) {
  auto impl = std::make_shared<Impl>();
  impl->where = where;
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&impl->places);
  parser.SetRecursionLimit(50);
  pb::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &impl->proto)) {
    const auto [number, words] = message_of(error, text);
    throw InvalidArgument(fmt::format("{}{}: {}", where, number >= 0 ? fmt::format(":{}", number + 1) : "", words));
  }
  impl->lines = true;
  job::unwrap_prefetch(*impl);
  job::check(*impl);
  return Job(std::move(impl));
}

Job Job::from_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file.good() && !file.eof()) {
    throw FileError(fmt::format("{}: {}", path, std::filesystem::exists(path) ? "cannot be read" : "no such file"));
  }
  return from_text(text, path);
}

Job Job::from_bytes(const std::string& bytes, const std::string& where) {
  auto impl = std::make_shared<Impl>();
  impl->where = where;
  if (!impl->proto.ParseFromString(bytes)) {
    throw InvalidArgument(fmt::format("{}: the {} bytes are not a JobProto", where, bytes.size()));
  }
  if (impl->proto.has_name()) impl->where = fmt::format("job \"{}\"", impl->proto.name());
  job::unwrap_prefetch(*impl);
  job::check(*impl);
  return Job(std::move(impl));
}

Job Job::with(const std::string& fields) const {
  auto impl = std::make_shared<Impl>();
  impl->where = impl_->where;
  impl->proto = impl_->written.value_or(impl_->proto);
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(50);
  pb::io::ArrayInputStream stream(fields.data(), static_cast<int>(fields.size()));
  if (!parser.Merge(&stream, &impl->proto)) {
    throw InvalidArgument(fmt::format("{}: with: {}", impl->where, message_of(error, fields).second));
  }
  job::unwrap_prefetch(*impl);
  job::check(*impl);
  return Job(std::move(impl));
}

std::string Job::text() const {
  std::string text;
  pb::TextFormat::PrintToString(impl_->written.value_or(impl_->proto), &text);
  return text;
}

std::string Job::bytes() const { return impl_->written.value_or(impl_->proto).SerializeAsString(); }
const std::string& Job::where() const { return impl_->where; }
const std::string& Job::name() const { return impl_->proto.name(); }
const std::string& Job::workspace() const { return impl_->proto.cluster().workspace(); }
std::int64_t Job::workers() const {
  const job::ClusterProto& c = impl_->proto.cluster();
  return std::int64_t{c.nworker_groups()} * c.nworkers_per_group();
}

std::string job_descriptor() {
  google::protobuf::FileDescriptorProto file;
  job::JobProto::descriptor()->file()->CopyTo(&file);
  return file.SerializeAsString();
}

}  // namespace pleiad
