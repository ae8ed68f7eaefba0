package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// The protocol of an upload over its relay. The host first sends the number of the file's bytes that are on its
// storage. The portal then sends the rest in pieces, each after its length; length 0 requests the current offset. At
// any time the host may answer with an error instead and accept no more bytes.
const (
	// MaxUploadPiece is the largest piece in bytes. It bounds the buffers of both sides.
	MaxUploadPiece = 256 << 10
	// UploadHeader is the size of a piece's length in bytes.
	UploadHeader = 4

	maxUploadAnswer = 16 << 10
)

// UploadAnswer is the host's answer during an upload.
type UploadAnswer struct {
	Offset int64  `json:"offset"`          // bytes on the storage
	Error  string `json:"error,omitempty"` // why no more bytes are accepted
	Final  bool   `json:"final,omitempty"` // the error is permanent
}

// PutUploadHeader encodes a piece's length into b.
func PutUploadHeader(b []byte, n int) { binary.BigEndian.PutUint32(b, uint32(n)) }

// ReadUploadHeader reads the length of the next piece. It returns io.EOF if no piece follows.
func ReadUploadHeader(r io.Reader) (int, error) {
	var b [UploadHeader]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(b[:])
	if n > MaxUploadPiece {
		return 0, fmt.Errorf("a piece of %d bytes is larger than %d", n, MaxUploadPiece)
	}
	return int(n), nil
}

// WriteUploadAnswer writes the answer as one line of JSON. A long error text is cut.
func WriteUploadAnswer(w io.Writer, a UploadAnswer) error {
	if len(a.Error) > maxUploadAnswer/8 {
		a.Error = a.Error[:maxUploadAnswer/8]
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// NewUploadAnswers returns a function that reads the host's next answer.
func NewUploadAnswers(r io.Reader) func() (UploadAnswer, error) {
	lines := bufio.NewReaderSize(r, maxUploadAnswer)
	return func() (UploadAnswer, error) {
		var a UploadAnswer
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return a, err
		}
		return a, json.Unmarshal(line, &a)
	}
}
