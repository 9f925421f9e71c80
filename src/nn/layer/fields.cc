#include "nn/layer/fields.h"

namespace pleiad::nn {

const std::vector<AnyOptionField>& param_fields() {
  static const std::vector<AnyOptionField> all = [] {
    std::vector<AnyOptionField> list = {field("init", &Init::type, ""),  field("value", &Init::value, ""),
                                        field("mean", &Init::mean, ""),  field("std", &Init::std, ""),
                                        field("low", &Init::low, ""),    field("high", &Init::high, ""),
                                        field("scale", &Init::scale, "")};
    for (AnyOptionField& inner : list) inner.offsets.front() += offset_of(&Param::init);
    list.insert(list.end(), {field("rate_scale", &Param::rate_scale, ""), field("decay_scale", &Param::decay_scale, ""),
                             field("share", &Param::share, ""), field("norm", &Param::norm, ""),
                             field("apart", &Param::apart, "")});
    return list;
  }();
  return all;
}

}  // namespace pleiad::nn
