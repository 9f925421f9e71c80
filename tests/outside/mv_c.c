/* A program written for Multiverso's C API, without knowledge of Pleiad. */
#include <multiverso/c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSize = 10000, kRounds = 20, kRows = 11, kCols = 10 };

static int differ(const char* what, int at, float is, float should) {
  if (is == should) return 0;
  fprintf(stderr, "%s[%d] is %g; expected %g\n", what, at, (double)is, (double)should);
  return 1;
}

int main(int argc, char* argv[]) {
  static float delta[kSize], values[kSize];
  TableHandler array = NULL, matrix = NULL;
  MV_Init(&argc, argv);
  const float workers = (float)MV_NumWorkers();
  const float sign = argc > 1 && strcmp(argv[1], "descends") == 0 ? -1.0F : 1.0F;
  int wrong = 0;

  MV_NewArrayTable(kSize, &array);
  for (int i = 0; i < kSize; ++i) delta[i] = (float)(i + 1);
  for (int round = 0; round < kRounds; ++round) {
    MV_AddAsyncArrayTable(array, delta, kSize);
    MV_AddArrayTable(array, delta, kSize);
    MV_Barrier();
    MV_GetArrayTable(array, values, kSize);
    for (int i = 0; i < kSize && wrong == 0; ++i) {
      wrong = differ("array", i, values[i], sign * (float)(round + 1) * delta[i] * 2 * workers);
    }
    MV_Barrier();
  }

  int ids[] = {0, 1, 5, 10};
  MV_NewMatrixTable(kRows, kCols, &matrix);
  for (int round = 1; round <= kRounds; ++round) {
    MV_AddMatrixTableAll(matrix, delta, kRows * kCols);
    for (int r = 0; r < 4; ++r) memcpy(values + r * kCols, delta + ids[r] * kCols, kCols * sizeof(float));
    MV_AddAsyncMatrixTableByRows(matrix, values, 4 * kCols, ids, 4);
    MV_Barrier();
    MV_GetMatrixTableAll(matrix, values, kRows * kCols);
    for (int i = 0; i < kRows * kCols && wrong == 0; ++i) {
      const int row = i / kCols, twice = row == 0 || row == 1 || row == 5 || row == 10;
      wrong = differ("matrix", i, values[i], sign * (float)round * delta[i] * (twice ? 2 : 1) * workers);
    }
    MV_GetMatrixTableByRows(matrix, values, 4 * kCols, ids, 4);
    for (int i = 0; i < 4 * kCols && wrong == 0; ++i) {
      wrong =
          differ("rows", i, values[i], sign * (float)round * delta[ids[i / kCols] * kCols + i % kCols] * 2 * workers);
    }
    MV_Barrier();
  }

  const int worker = MV_WorkerId(), server = MV_ServerId();
  MV_ShutDown();
  if (wrong == 0) printf("mv_c: worker %d, server %d of %d is right\n", worker, server, (int)workers);
  return wrong;
}
