// Package dataformats reads and writes the formats of data sets: LEAF, TensorFlow Federated, NumPy,
// and compressed content of any of them. Package parquetfile reads Parquet.
package dataformats
