#include <multiverso/c_api.h>
#include <stdio.h>

int main(int argc, char* argv[]) {
  float delta[6] = {1, 1, 1, 2, 2, 2};
  float rows[6];
  int ids[2] = {0, 10};
  TableHandler table;

  MV_Init(&argc, argv); /* -sync=true, -updater_type=sgd and the other flags are in argv */
  MV_NewMatrixTable(11, 3, &table);
  MV_AddAsyncMatrixTableByRows(table, delta, 6, ids, 2);
  MV_Barrier();
  MV_GetMatrixTableByRows(table, rows, 6, ids, 2);
  if (MV_WorkerId() == 0) printf("%d workers made row 10 = %g %g %g\n", MV_NumWorkers(), rows[3], rows[4], rows[5]);
  MV_ShutDown();
  return 0;
}
