package hypervisor

import (
	"io"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// BoundedWriter splits its input into messages of bounded size and withholds the last message until Flush. So the
// caller can check the source again before the reader gets the last message.
type BoundedWriter struct {
	To       io.Writer
	Max      int64 // announced size in bytes; a Write beyond Max fails before the last message is sent
	Written  int64 // bytes written so far, including withheld ones
	withheld []byte
}

// Write implements io.Writer.
func (h *BoundedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > h.Max-h.Written {
		return 0, fleet.Errorf(fleet.Conflict, "The volume became larger while it was being sent. Try again when nobody writes to it.")
	}
	for n := 0; n < len(p); {
		if len(h.withheld) == wire.MaxDownloadPiece {
			if err := h.Flush(); err != nil {
				return n, err
			}
		}
		k := min(len(p)-n, wire.MaxDownloadPiece-len(h.withheld))
		h.withheld = append(h.withheld, p[n:n+k]...)
		n, h.Written = n+k, h.Written+int64(k)
	}
	return len(p), nil
}

// Flush sends the withheld bytes.
func (h *BoundedWriter) Flush() error {
	if len(h.withheld) == 0 {
		return nil
	}
	_, err := h.To.Write(h.withheld)
	h.withheld = h.withheld[:0]
	return err
}
