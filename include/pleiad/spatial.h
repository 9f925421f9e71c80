// Arrays of images that are split into tiles over ranks, and the exchange of the positions that a rank's outputs need
// from other ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/grid.h"
#include "pleiad/session.h"
#include "pleiad/view.h"

namespace pleiad {

/// How a halo reaches another rank. automatic: through shared memory on one host, otherwise by messages.
enum class HaloPath : std::uint8_t { automatic, messages };

/// Which member has and which member needs which positions. A team is a set of ranks that exchange among themselves. In
/// every team, member m has own[m] and needs need[m].
struct HaloSpec {
  std::string name = "halo";                 ///< name in error messages
  std::vector<std::vector<int>> teams = {};  ///< disjoint teams with the same number of members; a rank may be in none
  std::vector<Rect> own = {};                ///< for each member; disjoint
  std::vector<Rect> need = {};               ///< for each member; positions that no member has are zeros
  std::int64_t batch = 1;
  std::int64_t channels = 1;  ///< number of values per position
  DType dtype = DType::float32;
  int pieces = 1;    ///< number of parts of the batch that are exchanged independently
  double delay = 0;  ///< seconds to delay each message, to measure what overlap hides
  HaloPath path = HaloPath::automatic;
};

/// An exchange derived from global positions: member s sends the intersection of own[s] and need[r] to member r. The
/// backward exchange sends in the other direction and adds. Buffers are dense with channels last: (batch, rows of the
/// rectangle, its columns, channels).
///
/// All ranks of the session construct it together. Afterwards all members of a team make the same calls, with begin
/// before finish of the same piece; all calls of a rank come from one thread. Waits have the session's timeout, and the
/// error names the rank that was waited for. The session must outlive this object.
class PLEIAD_API HaloExchange {
 public:
  HaloExchange(Session& session, HaloSpec spec);
  ~HaloExchange();
  HaloExchange(const HaloExchange&) = delete;
  HaloExchange& operator=(const HaloExchange&) = delete;

  /// Sends this rank's positions of a piece to the members that need them. The caller may change `own` on return.
  void begin_forward(int piece, const void* own);
  /// Fills `need` from `own` and from the other members. Both buffers are for the whole batch; only the piece is
  /// filled.
  void finish_forward(int piece, const void* own, void* need);
  /// The transposed exchange: sends the values at other members' positions back to them.
  void begin_backward(int piece, const void* need);
  /// Sets own to the sum of what all members have at its positions; positions that no member needs become 0.
  void finish_backward(int piece, const void* need, void* own);

  void forward(const void* own, void* need);
  void backward(const void* need, void* own);

  /// Returns the range of samples of a piece.
  [[nodiscard]] Interval samples(int piece) const;
  [[nodiscard]] const HaloSpec& spec() const;
  /// This rank's rectangles; empty if it is in no team.
  [[nodiscard]] const Rect& own() const;
  [[nodiscard]] const Rect& need() const;
  /// planned_bytes() returns the bytes that this rank sends in one forward exchange by the formula; sent_bytes()
  /// returns what it has sent so far, in both directions.
  [[nodiscard]] std::int64_t planned_bytes() const;
  [[nodiscard]] std::int64_t sent_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the bytes that member `m` sends to the others in one forward exchange. It receives as many in one backward
/// exchange.
[[nodiscard]] PLEIAD_API std::int64_t halo_bytes(const HaloSpec& spec, int m);

/// The options of an array of images, (batch, height, width, channels), whose tiles are distributed over a grid.
struct GlobalArrayOptions {
  std::string name = "array";
  std::int64_t batch = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t channels = 1;
  DType dtype = DType::float32;
  Grid grid = {};
  /// The windows of the operation that reads the array, which determine the halos. Outputs are split as tiles are.
  SlidingWindow window_h = {};
  SlidingWindow window_w = {};
  /// true: views contain zeros where windows extend past the image; false: views end at its border.
  bool pad = false;
};

/// An array of images that is split over the ranks of a grid. All ranks of the session construct it together and make
/// the same calls. Returned views are its own memory, valid until the next call of the same function.
class PLEIAD_API GlobalArray {
 public:
  GlobalArray(Session& session, const GlobalArrayOptions& options);
  ~GlobalArray();
  GlobalArray(const GlobalArray&) = delete;
  GlobalArray& operator=(const GlobalArray&) = delete;

  /// Returns this rank's tile with its halos, which its outputs depend on. `local` has local_shape().
  [[nodiscard]] View get_fprop_view(ConstView local);
  /// Returns the sum of all ranks' gradients at this rank's positions. `error` has view_shape().
  [[nodiscard]] View get_bprop_view(ConstView error);
  /// Every rank of a group receives the whole array of its group.
  void gather(ConstView local, View whole);
  /// Copies this rank's tile out of a whole array, without communication.
  void scatter(ConstView whole, View local) const;

  /// (batch, height, width, channels).
  [[nodiscard]] std::vector<std::int64_t> global_shape() const;
  [[nodiscard]] std::vector<std::int64_t> local_shape() const;
  [[nodiscard]] std::vector<std::int64_t> view_shape() const;
  [[nodiscard]] std::vector<std::int64_t> output_shape() const;  ///< with the same number of channels
  [[nodiscard]] const Rect& tile() const;
  [[nodiscard]] const Rect& view() const;
  [[nodiscard]] const Rect& output() const;
  [[nodiscard]] const GlobalArrayOptions& options() const;
  [[nodiscard]] std::int64_t sent_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pleiad
