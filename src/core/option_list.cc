#include "core/option_list.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <fmt/format.h>

#include "core/option_field.h"
#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

template <class Options>
std::vector<std::string> names_of(const std::vector<OptionField<Options>>& fields) {
  std::vector<std::string> names;
  for (const auto& f : fields) names.push_back(f.name);
  return names;
}

template <class Options>
bool set_if_known(const std::vector<OptionField<Options>>& fields, Options& options, std::string_view name,
                  std::string_view value) {
  const auto found = std::ranges::find(fields, name, &OptionField<Options>::name);
  if (found == fields.end()) return false;
  found->set(options, value);
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

template <class Options>
void set_list(Options& options, std::string_view list) {
  std::vector<std::string_view> seen;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view item = trimmed(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    if (equals == item.npos) {
      throw InvalidArgument(fmt::format("options: expected name=value, received \"{}\"", item));
    }
    const std::string_view name = trimmed(item.substr(0, equals));
    if (std::ranges::find(seen, name) != seen.end()) {
      throw InvalidArgument(fmt::format("options: \"{}\" is given twice", name));
    }
    seen.push_back(name);
    set_option(options, name, trimmed(item.substr(equals + 1)));
  }
}

}  // namespace

const std::vector<OptionField<SessionOptions>>& session_fields() {
  using S = SessionOptions;
  static const std::vector<OptionField<S>> fields = {
      field("engine", &S::engine,
            "auto, solo or mpi; auto joins the world of the launcher, or is a world of one without one"),
      field("role", &S::role,
            "both, worker, server or none; or 3+2: of five ranks the first three work and the other two serve"),
      field("timeout", &S::timeout, "seconds after which a wait fails"),
      field("warn_after", &S::warn_after, "seconds after which a wait reports what every rank is doing"),
      field("host_timeout", &S::host_timeout, "seconds that another host may be silent before calls that need it fail"),
      field("interface", &S::interface,
            "where other hosts reach this one: an interface's name or an IPv4 address; empty: one is chosen"),
      field("transport_security", &S::transport_security,
            "between hosts: encrypt; off, which is refused beyond loopback; or force-off, which sends everything "
            "unencrypted, to anyone who connects"),
      field("log_level", &S::log_level, "debug, info, warn, error or off"),
      field("stats", &S::stats, "print counters and timings at shutdown"),
      field("signal_report", &S::signal_report, "print what every rank is doing on SIGUSR1"),
      field("shared_memory", &S::shared_memory, "for tests: false acts as if every rank were on a host of its own"),
      field("split_hosts", &S::split_hosts, "for tests: act as if the ranks were on this many hosts"),
      field("fault", &S::fault, "for tests: RANK:POINT:COUNT kills that rank at that point, as SIGKILL would"),
  };
  return fields;
}

const std::vector<OptionField<TableOptions>>& table_fields() {
  using T = TableOptions;
  static const std::vector<OptionField<T>> fields = {
      field("name", &T::name, "name in messages; empty: \"table 3\" and so on"),
      field("dtype", &T::dtype, "float32, float64, int32 or int64"),
      field("clock", &T::clock, "async, sync or ssp"),
      field("staleness", &T::staleness, "ssp: maximum number of ticks that a worker may be ahead of the slowest one"),
      field("backup", &T::backup,
            "round: fraction of the workers, the slowest ones, that a round does not wait for; their adds are dropped"),
      field("apply", &T::apply,
            "each: run the rule once per add; round: run it once on the sum of all workers' k-th adds"),
      field("ordered", &T::ordered, "round: sum in rank order, so results are bit-identical whatever the timing"),
      field("check_finite", &T::check_finite, "refuse adds that contain NaN or infinity"),
      field("reserve_only", &T::reserve_only,
            "do not commit memory at creation: for huge tables of which little is used"),
      field("init_rank", &T::init_rank, "rank whose initial values are used"),
      field("track_changes", &T::track_changes,
            "matrix and sparse tables: keep the information that get_changed needs"),
      field("init", &T::init, "sparse: initial values of a row: zeros, constant, uniform or gaussian"),
      field("init_value", &T::init_value, "sparse: the constant, or the mean of the random values"),
      field("init_spread", &T::init_spread, "sparse: half the width of uniform; the standard deviation of gaussian"),
      field("seed", &T::seed, "sparse: seed of the random values, together with the id of the row"),
      field("max_rows", &T::max_rows, "sparse: maximum number of rows; 0: limited only by memory"),
      field("evict", &T::evict, "sparse: at max_rows, drop the rows whose last add is oldest instead of failing"),
      field("max_age", &T::max_age, "sparse: seconds after its last add at which a row may be dropped; 0 disables it"),
  };
  return fields;
}

const std::vector<OptionField<UpdaterOptions>>& updater_fields() {
  using U = UpdaterOptions;
  static const std::vector<OptionField<U>> fields = {
      field("rule", &U::rule,
            "name of an update rule (sum, sgd, ...) or of another system's (multiverso/adagrad, ...)"),
      field("learning_rate", &U::learning_rate, "size of the step"),
      field("momentum", &U::momentum, "fraction of the previous step that is kept"),
      field("rho", &U::rho, "size of the step in Multiverso's adagrad"),
      field("lambda", &U::lambda, "dcasgd: weight of the delay compensation"),
      field("beta1", &U::beta1, "adam, adamax: decay of the first moment"),
      field("beta2", &U::beta2, "adam, adamax: decay of the second moment"),
      field("decay", &U::decay, "rmsprop, adadelta: decay of the running mean of squares"),
      field("l1", &U::l1, "ftrl: values whose sum of gradients is at most l1 in magnitude become exactly 0"),
      field("l2", &U::l2, "ftrl: pulls values towards 0"),
      field("ftrl_beta", &U::ftrl_beta, "ftrl: makes the first steps smaller"),
      field("epsilon", &U::epsilon, "prevents a division by zero"),
      field("weight_decay", &U::weight_decay, "g = scale * clip(delta) + weight_decay * value"),
      field("scale", &U::scale, "factor of the delta"),
      field("clip_low", &U::clip_low, "lower bound of the clipped delta; clips only if clip_high > clip_low"),
      field("clip_high", &U::clip_high, "upper bound of the clipped delta; clips only if clip_high > clip_low"),
      field("ascend", &U::ascend, "value += step instead of value -= step"),
      field("prescaled", &U::prescaled, "the delta is already learning_rate * gradient (Multiverso)"),
      field("damped", &U::damped, "momentum: v = m*v + (1-m)*g"),
      field("rate_in_velocity", &U::rate_in_velocity, "momentum: v = m*v + rate*g; value -= v (SINGA, neon)"),
      field("bias_correction", &U::bias_correction, "adam, adamax: correct the bias of the moments at the start"),
      field("epsilon_inside_root", &U::epsilon_inside_root, "adagrad, adam, rmsprop: sqrt(h + epsilon)"),
      field("per_worker", &U::per_worker, "adagrad: keep a history for each worker"),
      field("adaptive", &U::adaptive, "dcasgd: divide lambda by the root of the mean square (dcasgda)"),
  };
  return fields;
}

void set_option(SessionOptions& options, std::string_view name, std::string_view value) {
  if (set_if_known(session_fields(), options, name, value)) return;
  throw InvalidArgument(unknown_name("session option", name, names_of(session_fields())));
}

void set_option(TableOptions& options, std::string_view name, std::string_view value) {
  constexpr std::string_view kPrefix = "updater.";
  if (set_if_known(table_fields(), options, name, value)) return;
  const std::string_view bare = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  if (bare == "updater") {
    options.updater.rule = std::string(value);
    return;
  }
  if (set_if_known(updater_fields(), options.updater, bare, value)) return;
  std::vector<std::string> known = names_of(table_fields());
  for (const std::string& rule : names_of(updater_fields())) known.push_back(rule);
  throw InvalidArgument(unknown_name("table option", name, known));
}

void check(const SessionOptions& options) {
  const auto refuse = [](std::string_view name, std::string_view expected, auto received) {
    throw InvalidArgument(fmt::format("option {}: expected {}, received {}", name, expected, received));
  };
  if (!(options.timeout > 0)) refuse("timeout", "more than 0 seconds", options.timeout);
  if (!(options.host_timeout > 0)) refuse("host_timeout", "more than 0 seconds", options.host_timeout);
  if (!(options.warn_after > 0)) refuse("warn_after", "more than 0 seconds", options.warn_after);
  require_known("option transport_security", options.transport_security, {"encrypt", "off", "force-off"});
  if (options.split_hosts < 0) refuse("split_hosts", "0 or a number of hosts", options.split_hosts);
}

void set_options(TableOptions& options, std::string_view list) { set_list(options, list); }
void set_options(SessionOptions& options, std::string_view list) { set_list(options, list); }

namespace {

constexpr std::string_view kPrefix = "PLEIAD_";

// Variables that are not session options: set by launchers for their ranks, or settings of single components.
constexpr std::string_view kOtherVariables[] = {
    "PLEIAD_BUILD",      "PLEIAD_CPU_LEVEL",   "PLEIAD_DATA",        "PLEIAD_KEEP_MEMORY", "PLEIAD_LAUNCHER",
    "PLEIAD_LAUNCH_KEY", "PLEIAD_LAUNCH_RANK", "PLEIAD_LAUNCH_SIZE", "PLEIAD_LIBRARY",     "PLEIAD_MPIRUN",
    "PLEIAD_RANK",       "PLEIAD_RESTARTED",   "PLEIAD_RANK_PROCESS"};

std::string variable_of(std::string_view option) {
  std::string variable(kPrefix);
  for (const char c : option) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

}  // namespace

void read_environment(SessionOptions& options) {
  for (const auto& f : session_fields()) {
    const std::string variable = variable_of(f.name);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || *value == 0) continue;
    try {
      f.set(options, value);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("environment variable {}: {}", variable, error.what()));
    }
  }
}

std::vector<std::string> unknown_variables() {
  std::vector<std::string> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const auto& f : session_fields()) known.push_back(variable_of(f.name));
  std::vector<std::string> problems;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(kPrefix) || std::ranges::find(known, name) != known.end()) continue;
    const std::string near = nearest(name, known);
    problems.push_back(fmt::format("environment variable {} is unknown and has no effect{}", name,
                                   near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  return problems;
}

std::string options_markdown() {
  std::string text =
      "# Parameters\n\n"
      "This page lists every option of a session, a table and an update rule, with its default. C++, C, Python and Lua "
      "use the\n"
      "same names. An option of a session may also be set in the environment, which wins: `PLEIAD_TIMEOUT=60` sets "
      "`timeout`.\n"
      "`pleiad options` prints this page, and a test compares the two.\n";
  const auto section = [&](std::string_view title, const auto& fields, const auto& defaults) {
    text += fmt::format("\n## {}\n\n| option | default | meaning |\n|---|---|---|\n", title);
    for (const auto& f : fields) {
      const std::string value = f.get(defaults);
      text += fmt::format("| `{}` | {} | {} |\n", f.name, value.empty() ? "" : "`" + value + "`", f.help);
    }
  };
  section("Session", session_fields(), SessionOptions{});
  section("Table", table_fields(), TableOptions{});
  section("Updater", updater_fields(), UpdaterOptions{});
  return text;
}

}  // namespace pleiad
