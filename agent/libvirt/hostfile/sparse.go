package hostfile

import "bytes"

// ReadBlockBytes is the size of the blocks that are read from a file.
const ReadBlockBytes = 1 << 20

// SparseFile writes blocks of zeros as holes.
type SparseFile struct{ WithheldHeadFile }

// Write implements io.Writer.
func (s *SparseFile) Write(p []byte) (int, error) {
	if len(s.Head) < WithheldHeadBytes || !isAllZeros(p) {
		return s.WithheldHeadFile.Write(p)
	}
	s.Bytes += int64(len(p))
	return len(p), nil
}

var zeroBytes = make([]byte, ReadBlockBytes)

// isAllZeros reports whether all bytes are zero.
func isAllZeros(p []byte) bool { return len(p) <= len(zeroBytes) && bytes.Equal(p, zeroBytes[:len(p)]) }
