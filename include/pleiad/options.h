// Every option of a session, a table and an add, with its default. The C API uses the same names, and so do the
// environment and the command line for the options of a session: src/core/option_list.cc lists them once, with their
// help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pleiad/dtype.h"

namespace pleiad {

/// Options of Session::start: how this process joins its world, and how long it waits for others.
struct SessionOptions {
  std::string engine = "auto";  ///< auto | solo | mpi. auto: mpi under a launcher, otherwise a world of one rank
  /// both | worker | server | none | 3+2: of five ranks, the first three work and the other two serve
  std::string role = "both";
  double timeout = 1800;       ///< seconds after which a wait fails
  double warn_after = 60;      ///< seconds after which a wait reports what every rank is doing
  double host_timeout = 20;    ///< seconds without a sign of life from another host after which calls that need it fail
  std::string interface = {};  ///< interface name or IPv4 address at which other hosts reach this one
  std::string transport_security = "encrypt";  ///< traffic between hosts: encrypt | off (loopback only) | force-off
  std::string log_level = "info";              ///< debug | info | warn | error | off
  bool stats = false;                          ///< print counters and timings at shutdown
  bool signal_report = true;                   ///< print what every rank is doing on SIGUSR1
  bool shared_memory = true;                   ///< for tests: false treats every rank as if it were on a separate host
  int split_hosts = 0;                         ///< for tests: treat the ranks as if they were on this many hosts
  std::string fault = {};  ///< for tests: RANK:POINT:COUNT kills that rank at that point, as SIGKILL would
};

/// How an add changes a shard. `rule` names one of Pleiad's rules (sum, sgd, ...) or a rule in the form of another
/// system ("multiverso/momentum_sgd", "singa/adagrad", "neon/momentum"), which presets the fields below.
struct UpdaterOptions {
  std::string rule = "sum";
  double learning_rate = 0.01;
  double momentum = 0;
  double rho = 0.1;
  double lambda = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double decay = 0.9;  ///< rmsprop, adadelta: decay factor of the running mean of squares
  double l1 = 0;       ///< ftrl: values whose sum of gradients is at most l1 in magnitude become exactly 0
  double l2 = 0;
  double ftrl_beta = 1;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< g = scale * clip(delta) + weight_decay * value
  double scale = 1;
  double clip_low = 0;  ///< clip deltas to [clip_low, clip_high]; no clipping unless clip_high > clip_low
  double clip_high = 0;
  bool ascend = false;               ///< value += step instead of value -= step
  bool prescaled = false;            ///< the delta is already learning_rate * gradient (Multiverso)
  bool damped = false;               ///< momentum: v = m*v + (1-m)*g
  bool rate_in_velocity = false;     ///< momentum: v = m*v + rate*g; value -= v (SINGA, neon)
  bool bias_correction = true;       ///< adam: correct the bias of the running means
  bool epsilon_inside_root = false;  ///< adagrad, adam, rmsprop: sqrt(h + epsilon) instead of sqrt(h) + epsilon
  bool per_worker = false;           ///< adagrad: keep a separate history for each worker
  bool adaptive = false;             ///< dcasgd: divide lambda by the root of the mean square (dcasgda)
};

/// Overrides of the rule's settings for a single add. Unset fields keep the table's values.
struct AddOptions {
  std::optional<double> learning_rate = std::nullopt;
  std::optional<double> momentum = std::nullopt;
  std::optional<double> rho = std::nullopt;
  std::optional<double> lambda = std::nullopt;
};

/// Options of a table: its element type, when calls take effect, and how adds change it.
struct TableOptions {
  std::string name = {};  ///< name in messages; empty: "table 3" and so on
  DType dtype = DType::float32;
  std::string clock = "async";  ///< async | sync | ssp
  int staleness = 0;            ///< ssp: a get waits while its worker is more ticks than this ahead of the slowest one
  double backup = 0;            ///< round: fraction of the workers, the slowest ones, that a round does not wait for
  /// each: run the rule once for each add; round: run it once on the sum of all workers' k-th adds
  std::string apply = "each";
  bool ordered = false;        ///< round: sum in rank order, so that results are bit-identical whatever the timing
  bool check_finite = false;   ///< refuse adds that contain NaN or infinity
  bool reserve_only = false;   ///< do not commit memory at creation: for huge tables of which little is used
  int init_rank = 0;           ///< rank whose initial values are used
  bool track_changes = false;  ///< rows: keep the information that get_changed needs
  // The following options are for sparse and key-value tables:
  std::string init = "zeros";  ///< initial values of a row: zeros | constant | uniform | gaussian
  double init_value = 0;       ///< constant: the value; otherwise the mean
  double init_spread = 0.01;   ///< uniform: init_value plus or minus this; gaussian: the standard deviation
  std::int64_t seed = 0;       ///< seed of the initial values, together with the id of the row
  std::int64_t max_rows = 0;   ///< maximum number of rows, divided over the hosts; 0: limited by memory only
  bool evict = false;          ///< at max_rows, drop the rows with the oldest last add instead of failing
  double max_age = 0;          ///< seconds after its last add at which a row may be dropped; 0 disables it
  UpdaterOptions updater = {};
};

}  // namespace pleiad
