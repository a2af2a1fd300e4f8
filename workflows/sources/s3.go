package sources

import (
	"context"
	"io"
	"strings"

	"coalmine/storage/s3"
)

// findS3 finds one object, or those directly below a prefix that ends in a slash.
func findS3(ctx context.Context, url string) (*Source, error) {
	config, key, err := s3.ParseObjectURL(url)
	if err != nil {
		return nil, err
	}
	bucket, err := s3.NewBucket(config)
	if err != nil {
		return nil, err
	}
	if key == "" || strings.HasSuffix(key, "/") {
		return listS3(ctx, bucket, key)
	}
	object, err := bucket.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	return &Source{Name: url, Files: []*File{objectFile(bucket, object)}}, nil
}

func listS3(ctx context.Context, bucket *s3.Bucket, prefix string) (*Source, error) {
	var files []*File
	for object, err := range bucket.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(object.Key, prefix)
		if inner, ok := strings.CutSuffix(name, "/"); ok && inner != "" && !isHidden(inner) {
			return nil, subdirectory(bucket.URL(prefix), inner)
		}
		if isData(name) {
			files = append(files, objectFile(bucket, object))
		}
	}
	return newDirectory(bucket.URL(prefix), files)
}

func objectFile(bucket *s3.Bucket, object s3.Object) *File {
	open := func(ctx context.Context) (io.ReadCloser, error) { return bucket.Open(ctx, object) }
	return &File{Name: bucket.URL(object.Key), Open: open}
}
