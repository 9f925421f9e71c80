// Arrays of images whose tiles lie on ranks, and how ranks get the places of others that their outputs need.
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

/// Who has and who needs which places. Every team is a set of ranks that exchange among themselves; member m of each
/// has own[m] and needs need[m].
struct HaloSpec {
  std::string name = "halo";                 ///< in errors
  std::vector<std::vector<int>> teams = {};  ///< disjoint, as many members each; a rank may be in none
  std::vector<Rect> own = {};                ///< disjoint
  std::vector<Rect> need = {};               ///< may reach past what anybody has: zeros
  std::int64_t batch = 1;
  std::int64_t channels = 1;  ///< numbers at a place
  DType dtype = DType::float32;
  int pieces = 1;         ///< parts of the batch that travel by themselves
  double delay = 0;       ///< seconds that a message is held back: to measure what overlap hides
  std::string path = {};  ///< empty: shared memory on one host, else messages; "messages": always those
};

/// An exchange derived from global places: own[s] with need[r] in common is what s sends to r; backward goes the other
/// way and adds. Buffers are dense, channels last: (batch, rows of the rectangle, its columns, channels).
///
/// Made by all ranks of the session together. All members of a team then make the same calls, begin before finish of
/// the same piece; calls of one rank come from one thread. A wait has the session's deadline and names whom it waits
/// for. The session outlives it.
class PLEIAD_API HaloExchange {
 public:
  HaloExchange(Session& session, HaloSpec spec);
  ~HaloExchange();
  HaloExchange(const HaloExchange&) = delete;
  HaloExchange& operator=(const HaloExchange&) = delete;

  /// Hands this rank's places of a piece to those who need them; `own` may be changed again when it returns.
  void begin_forward(int piece, const void* own);
  /// Fills `need`, from `own` and from others. Buffers of the whole batch, of which the piece is filled.
  void finish_forward(int piece, const void* own, void* need);
  /// The transposed way: hands what lies at others' places to them.
  void begin_backward(int piece, const void* need);
  /// own = the sum of what all members have at its places; 0 where nobody needs one.
  void finish_backward(int piece, const void* need, void* own);

  void forward(const void* own, void* need);
  void backward(const void* need, void* own);

  /// Samples of a piece.
  [[nodiscard]] Interval samples(int piece) const;
  [[nodiscard]] const HaloSpec& spec() const;
  /// This rank's rectangles; empty where it is in no team.
  [[nodiscard]] const Rect& own() const;
  [[nodiscard]] const Rect& need() const;
  /// What this rank sends in one forward, by the formula; and what it has sent so far, both ways.
  [[nodiscard]] std::int64_t planned_bytes() const;
  [[nodiscard]] std::int64_t sent_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Bytes that member `m` sends to the others in one forward, which are those that it gets in one backward.
[[nodiscard]] PLEIAD_API std::int64_t halo_bytes(const HaloSpec& spec, int m);

/// An array of images, (batch, height, width, channels), whose tiles lie on a grid.
struct GlobalArrayOptions {
  std::string name = "array";
  std::int64_t batch = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t channels = 1;
  DType dtype = DType::float32;
  Grid grid = {};
  /// What is done with the array: the windows that outputs need, for the halos. Outputs are cut as tiles are.
  SlidingWindow window_h = {};
  SlidingWindow window_w = {};
  /// Views hold zeros where windows reach past the image; else they end at its border.
  bool pad = false;
};

/// Made by all ranks of the session together; so are its calls. Views are its own memory, valid until the next call of
/// the same kind.
class PLEIAD_API GlobalArray {
 public:
  GlobalArray(Session& session, const GlobalArrayOptions& options);
  ~GlobalArray();
  GlobalArray(const GlobalArray&) = delete;
  GlobalArray& operator=(const GlobalArray&) = delete;

  /// This rank's tile with its halos: what its outputs need. `local` has local_shape().
  [[nodiscard]] View get_fprop_view(ConstView local);
  /// What comes back: the sum of all ranks' gradients at this rank's places. `error` has view_shape().
  [[nodiscard]] View get_bprop_view(ConstView error);
  /// Every rank of a group gets the whole array of its group.
  void gather(ConstView local, View whole);
  /// This rank's tile of a whole array; nothing is exchanged.
  void scatter(ConstView whole, View local) const;

  /// (batch, height, width, channels).
  [[nodiscard]] std::vector<std::int64_t> global_shape() const;
  [[nodiscard]] std::vector<std::int64_t> local_shape() const;
  [[nodiscard]] std::vector<std::int64_t> view_shape() const;
  [[nodiscard]] std::vector<std::int64_t> output_shape() const;  ///< with as many channels
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
