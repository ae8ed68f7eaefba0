package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// What goes through an upload's pair. The host says first how much of the file it has for good; then the portal sends what follows, in
// pieces that each come behind their length, and a length of 0 to hear how much there is now. Whenever it must, the host says instead why
// no more is taken.
const (
	// MaxUploadPiece bounds one piece, and so what is on its way in each hand.
	MaxUploadPiece = 256 << 10
	// UploadHeader is how long a piece's length is.
	UploadHeader = 4

	mostUploadAnswer = 16 << 10
)

// UploadAnswer is what a host says of an upload.
type UploadAnswer struct {
	Offset int64  `json:"offset"`          // that much of it is on the storage
	Error  string `json:"error,omitempty"` // why no more is taken
	Final  bool   `json:"final,omitempty"` // and never will be
}

// PutUploadHeader writes a piece's length before it.
func PutUploadHeader(b []byte, n int) { binary.BigEndian.PutUint32(b, uint32(n)) }

// ReadUploadHeader reads how long the next piece is. io.EOF: none comes.
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

// WriteUploadAnswer says it to the portal.
func WriteUploadAnswer(w io.Writer, a UploadAnswer) error {
	if len(a.Error) > mostUploadAnswer/8 {
		a.Error = a.Error[:mostUploadAnswer/8]
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// NewUploadAnswers reads what a host says.
func NewUploadAnswers(r io.Reader) func() (UploadAnswer, error) {
	lines := bufio.NewReaderSize(r, mostUploadAnswer)
	return func() (UploadAnswer, error) {
		var a UploadAnswer
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return a, err
		}
		return a, json.Unmarshal(line, &a)
	}
}
