--- The element types of tables with their names in each language. `code` is the value of pleiad_dtype.
local kinds = {
  float32 = {name = "float32", code = 0, bytes = 4, c = "float", tensor = "FloatTensor"},
  float64 = {name = "float64", code = 1, bytes = 8, c = "double", tensor = "DoubleTensor"},
  int32 = {name = "int32", code = 2, bytes = 4, c = "int32_t", tensor = "IntTensor", low = -2 ^ 31, high = 2 ^ 31 - 1},
  int64 = {name = "int64", code = 3, bytes = 8, c = "int64_t", tensor = "LongTensor", low = -2 ^ 53, high = 2 ^ 53},
}
kinds.names = {"float32", "float64", "int32", "int64"}
return kinds
