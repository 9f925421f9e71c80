// Every option of a session, a table and an add, with its default. The same fields are read from the environment,
// from C and from the command line by name: src/core/option_list.cc lists them once, with their help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pleiad/dtype.h"

namespace pleiad {

struct SessionOptions {
  std::string engine = "auto";  ///< auto | solo | mpi. auto: mpi under a launcher, else a world of one
  std::string role = "both";  ///< both | worker | server | none | 3+2: of five ranks the first three work and two serve
  double timeout = 1800;      ///< seconds a wait may last before it fails
  double warn_after = 60;     ///< seconds after which a wait reports what every rank is doing
  double host_timeout = 20;   ///< seconds another host may be silent before calls that need it fail
  std::string interface = {};  ///< where other hosts reach this one: an interface's name or an IPv4 address
  std::string transport_security = "encrypt";  ///< between hosts: encrypt | off (loopback only) | force-off
  std::string log_level = "info";              ///< debug | info | warn | error | off
  bool stats = false;                          ///< print counters and timings at shutdown
  bool signal_report = true;                   ///< print what every rank is doing on SIGUSR1
  bool shared_memory = true;                   ///< false, for tests: act as if every rank lay on a host of its own
  int split_hosts = 0;                         ///< for tests: act as if the ranks lay on this many hosts
  std::string fault = {};                      ///< for tests: RANK:POINT:COUNT ends that rank there, as SIGKILL would
};

/// How an add changes a shard. `rule` names a rule of Pleiad (sum, sgd, ...) or of a dialect
/// ("multiverso/momentum_sgd", "singa/adagrad", "neon/momentum"), which presets the fields below.
struct UpdaterOptions {
  std::string rule = "sum";
  double learning_rate = 0.01;
  double momentum = 0;
  double rho = 0.1;
  double lambda = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double decay = 0.9;  ///< rmsprop, adadelta: how much of the mean squares stays
  double l1 = 0;       ///< ftrl: values whose sum of gradients is within l1 are exactly 0
  double l2 = 0;
  double ftrl_beta = 1;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< g = scale * clip(delta) + weight_decay * value
  double scale = 1;
  double clip_low = 0;  ///< clips where clip_high > clip_low
  double clip_high = 0;
  bool ascend = false;               ///< value += step in place of value -= step
  bool prescaled = false;            ///< the delta is already learning_rate * gradient (Multiverso)
  bool damped = false;               ///< momentum: v = m*v + (1-m)*g
  bool rate_in_velocity = false;     ///< momentum: v = m*v + rate*g; value -= v (SINGA, neon)
  bool bias_correction = true;       ///< adam
  bool epsilon_inside_root = false;  ///< adagrad, adam, rmsprop: sqrt(h + epsilon) in place of sqrt(h) + epsilon
  bool per_worker = false;           ///< adagrad: each worker has its own history
  bool adaptive = false;             ///< dcasgd: lambda is divided by the root of the mean square (dcasgda)
};

/// What one add may change about the rule; what is unset comes from the table.
struct AddOptions {
  std::optional<double> learning_rate = std::nullopt;
  std::optional<double> momentum = std::nullopt;
  std::optional<double> rho = std::nullopt;
  std::optional<double> lambda = std::nullopt;
};

struct TableOptions {
  std::string name = {};  ///< for messages; "table 3" where empty
  DType dtype = DType::float32;
  std::string clock = "async";  ///< async | sync | ssp
  int staleness = 0;            ///< ssp: by how many ticks a worker may be ahead of the slowest
  double backup = 0;            ///< round: the fraction of the workers, the slowest, that a round does not wait for
  std::string apply = "each";   ///< each: the rule runs once an add; round: once on the sum of all workers' k-th adds
  bool ordered = false;         ///< round: sum in rank order, so the bits do not depend on timing
  bool check_finite = false;    ///< refuse NaN and infinity in an add
  bool reserve_only = false;    ///< do not commit memory at creation: for huge tables of which little is touched
  int init_rank = 0;            ///< whose initial values count
  bool track_changes = false;   ///< rows: keep what get_changed needs
  // Sparse and key-value tables:
  std::string init = "zeros";  ///< what a row starts as: zeros | constant | uniform | gaussian
  double init_value = 0;       ///< constant: the value; else the mean
  double init_spread = 0.01;   ///< uniform: init_value -+ this; gaussian: the standard deviation
  std::int64_t seed = 0;       ///< with the row's id, the key of its random numbers
  std::int64_t max_rows = 0;   ///< how many rows there may be; 0: as many as the memory holds
  bool evict = false;          ///< max_rows: drop those whose last add is longest ago, in place of an error
  double max_age = 0;          ///< seconds after its last add at which a row may be dropped; 0: never
  UpdaterOptions updater = {};
};

}  // namespace pleiad
