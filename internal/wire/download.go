package wire

import (
	"encoding/json"
	"fmt"
	"io"
)

// MaxDownloadPiece is the largest number of a volume's bytes in one message.
const MaxDownloadPiece = 256 << 10

// DownloadHead is sent before a volume's bytes.
type DownloadHead struct {
	SizeBytes int64  `json:"sizeBytes"`       // number of bytes that follow
	Error     string `json:"error,omitempty"` // reason why no bytes follow; empty: the bytes follow
}

const maxDownloadHead = 4 << 10

// WriteDownloadHead writes the head as JSON, preceded by its length in four bytes. A long error text is cut.
func WriteDownloadHead(w io.Writer, h DownloadHead) error {
	if len(h.Error) > maxDownloadHead/8 {
		h.Error = h.Error[:maxDownloadHead/8]
	}
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	b := make([]byte, UploadHeader, UploadHeader+len(text))
	PutUploadHeader(b, len(text))
	_, err = w.Write(append(b, text...))
	return err
}

// ReadDownloadHead reads the head that is sent before a volume's bytes.
func ReadDownloadHead(r io.Reader) (h DownloadHead, err error) {
	n, err := ReadUploadHeader(r)
	if err != nil {
		return h, err
	}
	if n > maxDownloadHead {
		return h, fmt.Errorf("a download head of %d bytes is larger than %d", n, maxDownloadHead)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, err
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, err
	}
	if h.SizeBytes < 0 {
		return h, fmt.Errorf("invalid volume size of %d bytes", h.SizeBytes)
	}
	return h, nil
}
