package hostfile

import (
	"bytes"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"quantix/internal/fleet"
)

const (
	checkpointBytes         = 4 << 10
	checkpointIntervalBytes = 64 << 20 // a power failure of the host loses at most this many bytes of the upload
)

// UploadChecksum is the running checksum of an upload. hash is nil if the upload has no checksum.
type UploadChecksum struct {
	Algorithm, Want string
	Hash            hash.Hash
}

// ResumableUpload is the unfinished file of an upload that can be resumed. The file's head is stored after the end of
// the file. Two alternating checkpoints follow, so that a torn write leaves the other checkpoint intact.
type ResumableUpload struct {
	WithheldHeadFile
	pool             string // the pool's name, for errors
	upload           fleet.UploadID
	total            int64
	Sum              UploadChecksum
	checkpointNumber int64
	checkpointed     int64      // the size in the newest checkpoint, written or being written
	writing          chan error // not nil while a checkpoint is being written in the background
	Settled          bool       // the file already has its head and its final size
}

// checkpoint records how much of the upload is on the storage, and the state of the checksum.
type checkpoint struct {
	Upload fleet.UploadID `json:"upload"`
	Total  int64          `json:"total"`
	Size   int64          `json:"size"`
	Turn   int64          `json:"turn"`
	Sum    []byte         `json:"sum,omitempty"` // the hash's state at this size
}

// NewResumableUpload returns the state of a new upload.
func NewResumableUpload(f *os.File, pool string, o fleet.VolumeParams, sum UploadChecksum) *ResumableUpload {
	return &ResumableUpload{WithheldHeadFile: WithheldHeadFile{File: f}, pool: pool, upload: o.Upload, total: o.SizeBytes, Sum: sum, checkpointed: -1}
}

// NewCompletedUpload returns a complete file that only needs its final name.
func NewCompletedUpload(f *os.File, o fleet.VolumeParams) *ResumableUpload {
	return &ResumableUpload{WithheldHeadFile: WithheldHeadFile{File: f, Bytes: o.SizeBytes}, upload: o.Upload, total: o.SizeBytes, Settled: true}
}

// ReadResumableUpload returns the progress of the upload's unfinished file. It returns nil if the file belongs to another
// upload.
func ReadResumableUpload(f *os.File, pool string, o fleet.VolumeParams, sum UploadChecksum) (*ResumableUpload, error) {
	p := NewResumableUpload(f, pool, o, sum)
	var newest checkpoint
	found := false
	for turn := range int64(2) {
		raw := make([]byte, checkpointBytes)
		if _, err := f.ReadAt(raw, p.checkpointOffset(turn)); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if at, ok := parseCheckpoint(raw); ok && at.Upload == o.Upload && at.Total == o.SizeBytes && at.Size >= 0 && at.Size <= at.Total && (!found || at.Turn > newest.Turn) {
			newest, found = at, true
		}
	}
	if !found {
		return nil, nil
	}
	if sum.Hash != nil {
		state, ok := sum.Hash.(encoding.BinaryUnmarshaler)
		if !ok {
			return nil, nil
		}
		if err := state.UnmarshalBinary(newest.Sum); err != nil {
			return nil, fmt.Errorf("resume the upload's checksum: %w", err)
		}
	}
	p.Head = make([]byte, min(newest.Size, WithheldHeadBytes))
	if _, err := f.ReadAt(p.Head, p.total); err != nil {
		return nil, fmt.Errorf("read the head of the upload: %w", err)
	}
	p.Bytes, p.synced, p.checkpointed, p.checkpointNumber = newest.Size, newest.Size, newest.Size, newest.Turn+1
	return p, nil
}

// checkpointOffset returns the offset of the checkpoint with this number.
func (p *ResumableUpload) checkpointOffset(turn int64) int64 {
	return p.total + WithheldHeadBytes + turn%2*checkpointBytes
}

// parseCheckpoint parses a checkpoint. ok is false if the CRC-32 does not match.
func parseCheckpoint(raw []byte) (f checkpoint, ok bool) {
	line, _, ended := bytes.Cut(raw, []byte{'\n'})
	if !ended || len(line) < 9 {
		return f, false
	}
	return f, string(line[:8]) == fmt.Sprintf("%08x", crc32.ChecksumIEEE(line[9:])) && json.Unmarshal(line[9:], &f) == nil
}

// Size implements upload.File.
func (p *ResumableUpload) Size() int64 { return p.Bytes }

// Write implements upload.File. It writes checkpoints in the background, so that the sender does not wait for the
// storage.
func (p *ResumableUpload) Write(b []byte) (int, error) {
	p.synced = p.Bytes // suppresses the sync of WithheldHeadFile, because Sync syncs
	n, err := p.WithheldHeadFile.Write(b)
	if p.Sum.Hash != nil {
		p.Sum.Hash.Write(b[:n])
	}
	if err != nil || p.Bytes-p.checkpointed < checkpointIntervalBytes {
		return n, TranslateNoSpace(p.pool, err)
	}
	select {
	case err := <-p.writing:
		p.writing = nil
		if err != nil {
			return n, err
		}
	default:
		if p.writing != nil {
			return n, nil // the storage still writes the previous checkpoint
		}
	}
	put, err := p.newCheckpoint()
	if err != nil {
		return n, err
	}
	done := make(chan error, 1)
	go func() { done <- put() }()
	p.writing = done
	return n, nil
}

// Sync implements upload.File. It waits until a checkpoint of all received data is on the storage.
func (p *ResumableUpload) Sync() error {
	if err := p.waitCheckpoint(); err != nil || p.checkpointed == p.Bytes {
		return err
	}
	put, err := p.newCheckpoint()
	if err == nil {
		err = put()
	}
	if err != nil {
		p.checkpointed = -1
		return TranslateNoSpace(p.pool, fmt.Errorf("sync the upload: %w", err))
	}
	return nil
}

// waitCheckpoint waits for the checkpoint that is being written.
func (p *ResumableUpload) waitCheckpoint() error {
	if p.writing == nil {
		return nil
	}
	err := <-p.writing
	p.writing = nil
	return err
}

// newCheckpoint returns a function that writes a checkpoint of the current size. The function syncs the data before it
// writes the checkpoint.
func (p *ResumableUpload) newCheckpoint() (put func() error, err error) {
	at := checkpoint{Upload: p.upload, Total: p.total, Size: p.Bytes, Turn: p.checkpointNumber}
	if state, ok := p.Sum.Hash.(encoding.BinaryMarshaler); ok {
		if at.Sum, err = state.MarshalBinary(); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	line := fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text)
	where, head := p.checkpointOffset(p.checkpointNumber), slices.Clip(p.Head)
	p.checkpointNumber, p.checkpointed = p.checkpointNumber+1, p.Bytes
	return func() error {
		if _, err := p.File.WriteAt(head, p.total); err != nil {
			return err
		}
		if err := p.File.Sync(); err != nil {
			return err
		}
		if _, err := p.File.WriteAt(append(line, make([]byte, checkpointBytes-len(line))...), where); err != nil {
			return err
		}
		return p.File.Sync()
	}, nil
}

// Close waits for the running checkpoint and closes the file.
func (p *ResumableUpload) Close() error { return errors.Join(p.waitCheckpoint(), p.File.Close()) }

// Text returns the checksum of the data received so far. It is empty if the upload has no checksum.
func (s UploadChecksum) Text() string {
	if s.Hash == nil {
		return ""
	}
	return hex.EncodeToString(s.Hash.Sum(nil))
}

// Complete first calls record to store the identity of the complete upload, and then truncates the file to its final
// size.
func (p *ResumableUpload) Complete(record func() error) error {
	if p.Settled {
		return nil
	}
	// The head (the file's first bytes) is already at offset 0; its checkpoint copy is after the final size. Truncating
	// the file to its final size removes the copy and the checkpoints.
	if err := p.File.Sync(); err != nil {
		return err
	}
	if err := record(); err != nil {
		return err
	}
	if err := p.File.Truncate(p.total); err != nil {
		return fmt.Errorf("truncate the file to its final size: %w", err)
	}
	return p.File.Sync()
}
