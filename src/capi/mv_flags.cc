#include "capi/mv_flags.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "core/option_list.h"
#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad::mv {

namespace {

constexpr std::array kOwn = {"sync", "updater_type", "ps_role", "ma"};
constexpr std::array kIgnored = {"backup_worker_ratio", "omp_threads",         "logtostderr", "machine_file", "port",
                                 "allocator_type",      "allocator_alignment", "is_pipelined"};
constexpr std::array kUpdaters = {"default", "sgd", "momentum_sgd", "adagrad", "dcasgd", "dcasgda"};
constexpr std::string_view kTablePrefix = "table.";
constexpr std::string_view kUpdaterPrefix = "updater.";

template <class List>
bool has(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool is_session_option(std::string_view name) {
  return std::ranges::find(session_fields(), name, &OptionField<SessionOptions>::name) != session_fields().end();
}

std::string lower(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return low;
}

bool parse_bool(std::string_view name, std::string_view value) {
  const std::string low = lower(value);
  if (has(std::array{"true", "1", "yes", "on"}, low)) return true;
  if (has(std::array{"false", "0", "no", "off"}, low)) return false;
  throw InvalidArgument(fmt::format("flag -{}: expected true or false, received \"{}\"", name, value));
}

std::string role_named(std::string_view value) {
  if (value == "default") return "both";
  const std::vector<std::string> known = {"default", "worker", "server", "none"};
  if (!has(known, value)) throw InvalidArgument(unknown_name("value of flag -ps_role", value, known));
  return std::string(value);
}

void put(std::vector<std::pair<std::string, std::string>>& options, std::string_view name, std::string_view value) {
  const auto found = std::ranges::find(options, name, &std::pair<std::string, std::string>::first);
  if (found == options.end()) {
    options.emplace_back(name, value);
  } else {
    found->second = value;
  }
}

std::string list_of(const std::vector<std::pair<std::string, std::string>>& options) {
  std::string list;
  for (const auto& [name, value] : options) list += fmt::format("{}{}={}", list.empty() ? "" : ", ", name, value);
  return list;
}

// Splits "-name=value" into name and value; the name is empty if the word has another form.
std::pair<std::string_view, std::string_view> cut(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (word.size() < 2 || word[0] != '-' || equals == word.npos || equals < 2) return {};
  return {word.substr(1, equals - 1), word.substr(equals + 1)};
}

// Lets the option itself check the value, so that an error is found before any rank waits for another.
template <class Options>
void check_value(std::string_view flag, std::string_view name, std::string_view value,
                 const std::vector<OptionField<Options>>& fields) {
  const auto found = std::ranges::find(fields, name, &OptionField<Options>::name);
  if (found == fields.end()) {
    std::vector<std::string> known;
    for (const auto& field : fields) known.push_back(field.name);
    throw InvalidArgument(fmt::format("flag -{}: {}", flag, unknown_name("option", name, known)));
  }
  try {
    Options options;
    found->set(options, value);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("flag -{}: {}", flag, error.what()));
  }
}

}  // namespace

bool Flags::set(std::string_view name, std::string_view value) {
  if (value.find(',') != value.npos && !has(kIgnored, name)) {
    throw InvalidArgument(fmt::format("flag -{}: the value \"{}\" has a comma", name, value));
  }
  if (name == "sync") {
    sync_ = parse_bool(name, value);
  } else if (name == "ma") {
    model_averaging_ = parse_bool(name, value);
  } else if (name == "ps_role") {
    put(session_, "role", role_named(value));
  } else if (name == "updater_type") {
    const std::vector<std::string> known(kUpdaters.begin(), kUpdaters.end());
    if (!has(known, value)) throw InvalidArgument(unknown_name("updater_type", value, known));
    updater_type_ = value;
  } else if (has(kIgnored, name)) {
    ignored_.push_back(fmt::format("-{}={}", name, value));
  } else if (is_session_option(name)) {
    check_value(name, name, value, session_fields());
    put(session_, name, value);
  } else if (name.starts_with(kTablePrefix)) {
    const std::string_view option = name.substr(kTablePrefix.size());
    check_value(name, option, value, table_fields());
    put(table_, option, value);
  } else if (name.starts_with(kUpdaterPrefix)) {
    check_value(name, name.substr(kUpdaterPrefix.size()), value, updater_fields());
    put(updater_, name, value);
  } else {
    return false;
  }
  return true;
}

std::string Flags::session_options() const {
  Options options = session_;
  if (model_averaging_) put(options, "role", "worker");
  return list_of(options);
}

std::string Flags::table_options(DType dtype) const {
  Options options;
  if (sync_) put(options, "clock", "sync");
  // Multiverso's updaters are for floating-point values; a table of integers always sums.
  if (is_integer(dtype)) {
    put(options, "updater", "multiverso/default");
  } else {
    put(options, "updater", "multiverso/" + updater_type_);
    for (const auto& [name, value] : updater_) put(options, name, value);
  }
  for (const auto& [name, value] : table_) put(options, name, value);
  return list_of(options);
}

std::vector<std::string> known_flags() {
  std::vector<std::string> names(kOwn.begin(), kOwn.end());
  for (const auto& field : session_fields()) names.push_back(field.name);
  for (const auto& field : updater_fields()) {
    if (field.name != "rule") names.push_back(std::string(kUpdaterPrefix) + field.name);
  }
  for (const auto& field : table_fields()) {
    if (field.name != "name" && field.name != "dtype") names.push_back(std::string(kTablePrefix) + field.name);
  }
  names.insert(names.end(), kIgnored.begin(), kIgnored.end());
  return names;
}

bool belongs_to_session(std::string_view name) { return name == "ma" || name == "ps_role" || is_session_option(name); }

Arguments read_arguments(Flags flags, int argc, char** argv) {
  Arguments read;
  for (int i = 0; i < argc; ++i) {
    const auto [name, value] = argv[i] == nullptr ? std::pair<std::string_view, std::string_view>() : cut(argv[i]);
    if (!name.empty() && flags.set(name, value)) {
      read.taken.push_back(argv[i]);
      continue;
    }
    if (!name.empty()) read.unknown.emplace_back(argv[i]);
    read.left.push_back(argv[i]);
  }
  read.flags = std::move(flags);
  return read;
}

std::string unknown_flags_message(const std::vector<std::string>& unknown) {
  const std::vector<std::string> known = known_flags();
  std::string text = unknown.size() == 1 ? "unknown flag" : "unknown flags";
  std::string hints;
  for (const std::string& word : unknown) {
    text += fmt::format("{} \"{}\"", text.back() == '"' ? "," : "", word);
    std::string_view name = cut(word).first;
    while (name.starts_with('-')) name.remove_prefix(1);
    const std::string near = has(known, name) ? std::string(name) : nearest(name, known);
    if (!near.empty()) hints += fmt::format("{}\"-{}\"", hints.empty() ? "" : ", ", near);
  }
  std::vector<std::string> listed(kOwn.begin(), kOwn.end());
  for (const auto& field : session_fields()) listed.push_back(field.name);
  listed.insert(listed.end(), {"updater.NAME", "table.NAME"});
  listed.insert(listed.end(), kIgnored.begin(), kIgnored.end());
  text += fmt::format(" left in argv; known: {}", join(listed));
  return hints.empty() ? text : fmt::format("{} (did you mean {}?)", text, hints);
}

}  // namespace pleiad::mv
