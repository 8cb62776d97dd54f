package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

// copyFiles puts the input files into a container that has not started, for an
// engine that doesn't share this machine's files. Doing it again changes nothing.
func (s *send) copyFiles(ctx context.Context, id string) error {
	archive, err := archiveOf(s.launch.Files, s.req.UID)
	if err != nil {
		return s.p.fail(sdk.Internal, opRun, fmt.Errorf("pack the input files: %w", err))
	}
	return s.p.client.Call(ctx, opRun, func(ctx context.Context, api *client.Client) error {
		_, err := api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/", Content: bytes.NewReader(archive)})
		return err
	})
}

// archiveOf packs input files. Folders are left out: the engine makes those
// that are missing, and naming one that is there would change its mode.
func archiveOf(files []sdk.InputFile, uid int) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.Path, "/"), Mode: int64(fileMode(f)), Size: int64(len(f.Data)), Uid: max(uid, 0)}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
