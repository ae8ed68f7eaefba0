package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// The protocol of an upload over its relay. The host first sends how many of the file's bytes it has stored. The portal
// then sends the other bytes in pieces, each after its length; length 0 requests the number of stored bytes. At any
// time the host may send an error instead, and then accepts no more bytes.
const (
	// MaxUploadPiece is the largest piece in bytes. It bounds the buffers of both sides.
	MaxUploadPiece = 256 << 10
	// UploadHeader is the number of bytes that encode a piece's length.
	UploadHeader = 4

	maxUploadAnswer = 16 << 10
)

// UploadAnswer is a message from the host during an upload.
type UploadAnswer struct {
	Offset int64  `json:"offset"`          // number of bytes that the host has stored
	Error  string `json:"error,omitempty"` // why the host accepts no more bytes
	Final  bool   `json:"final,omitempty"` // the error is permanent, so a retry is useless
}

// PutUploadHeader encodes a piece's length into b.
func PutUploadHeader(b []byte, n int) { binary.BigEndian.PutUint32(b, uint32(n)) }

// ReadUploadHeader reads the length of the next piece. It returns io.EOF if there is no next piece.
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

// NewUploadAnswerReader returns a function that reads the host's next answer.
func NewUploadAnswerReader(r io.Reader) func() (UploadAnswer, error) {
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
