package wire

import (
	"encoding/json"
	"fmt"
	"io"
)

// MaxDownloadPiece is how much of a volume a host sends in one message.
const MaxDownloadPiece = 256 << 10

// DownloadHead is what a host says of a volume before its bytes.
type DownloadHead struct {
	SizeBytes int64  `json:"sizeBytes"`       // that many come
	Error     string `json:"error,omitempty"` // why none come
}

const mostDownloadHead = 4 << 10

// WriteDownloadHead says it to the portal: its length in four bytes, and the text.
func WriteDownloadHead(w io.Writer, h DownloadHead) error {
	if len(h.Error) > mostDownloadHead/8 {
		h.Error = h.Error[:mostDownloadHead/8]
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

// ReadDownloadHead reads what a host says first.
func ReadDownloadHead(r io.Reader) (h DownloadHead, err error) {
	n, err := ReadUploadHeader(r)
	if err != nil {
		return h, err
	}
	if n > mostDownloadHead {
		return h, fmt.Errorf("a head of %d bytes is larger than %d", n, mostDownloadHead)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, err
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, err
	}
	if h.SizeBytes < 0 {
		return h, fmt.Errorf("a volume of %d bytes", h.SizeBytes)
	}
	return h, nil
}
