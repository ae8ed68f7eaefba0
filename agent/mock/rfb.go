package mock

import (
	"bufio"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"io"
	"net"
	"time"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// These constants are the size of the picture in pixels, derived from the size of a character.
const (
	cellWidth, cellHeight = 7, 13
	width, height         = columns * cellWidth, rows * cellHeight
)

// pixelFormat is RFB's PIXEL_FORMAT.
type pixelFormat struct {
	BitsPerPixel, Depth, BigEndian, TrueColour uint8
	RedMax, GreenMax, BlueMax                  uint16
	RedShift, GreenShift, BlueShift            uint8
	_                                          [3]uint8
}

var trueColour = pixelFormat{
	BitsPerPixel: 32, Depth: 24, TrueColour: 1,
	RedMax: 255, GreenMax: 255, BlueMax: 255, RedShift: 16, GreenShift: 8,
}

// rfbServer is the connection of one viewer: RFB 3.8 without authentication, with raw encoding and true colour.
type rfbServer struct {
	conn     net.Conn
	in       *bufio.Reader
	screen   *textScreen
	requests chan updateRequest // buffer of one: the viewer's newest request
}

// updateRequest is a FramebufferUpdateRequest, with the pixel format that applied when the request arrived.
type updateRequest struct {
	format pixelFormat
	full   bool
}

// serveRFB serves one viewer until the viewer disconnects or the screen ends.
func serveRFB(conn net.Conn, s *textScreen) {
	r := &rfbServer{conn: conn, in: bufio.NewReader(conn), screen: s, requests: make(chan updateRequest, 1)}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	if r.handshake() != nil {
		return
	}
	conn.SetDeadline(time.Time{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.readMessages()
	}()
	r.answerRequests(gone)
}

func (r *rfbServer) handshake() error {
	if _, err := io.WriteString(r.conn, "RFB 003.008\n"); err != nil {
		return err
	}
	var version [12]byte
	if _, err := io.ReadFull(r.in, version[:]); err != nil {
		return err
	}
	if string(version[:]) != "RFB 003.008\n" {
		return errors.New("the viewer does not speak RFB 3.8")
	}
	const none = 1
	if _, err := r.conn.Write([]byte{1, none}); err != nil {
		return err
	}
	if kind, err := r.in.ReadByte(); err != nil || kind != none {
		return errors.Join(err, errors.New("the viewer chose another security type"))
	}
	if _, err := r.conn.Write(make([]byte, 4)); err != nil { // SecurityResult: OK
		return err
	}
	if _, err := r.in.ReadByte(); err != nil { // ClientInit
		return err
	}
	// A struct of fixed size always encodes without an error.
	hello, _ := binary.Append(nil, binary.BigEndian, struct {
		Width, Height uint16
		Format        pixelFormat
		NameLength    uint32
	}{width, height, trueColour, uint32(len(r.screen.name))})
	_, err := r.conn.Write(append(hello, r.screen.name...))
	return err
}

// readMessages handles the viewer's messages.
func (r *rfbServer) readMessages() {
	format := trueColour
	for {
		kind, err := r.in.ReadByte()
		if err != nil {
			return
		}
		switch kind {
		case 0: // SetPixelFormat
			var m struct {
				_      [3]uint8
				Format pixelFormat
			}
			err = binary.Read(r.in, binary.BigEndian, &m)
			format = m.Format
			if bits := format.BitsPerPixel; format.TrueColour == 0 || bits != 8 && bits != 16 && bits != 32 {
				return
			}
		case 2: // SetEncodings: every viewer supports raw
			var m struct {
				_     uint8
				Count uint16
			}
			err = binary.Read(r.in, binary.BigEndian, &m)
			r.skip(4 * int(m.Count))
		case 3: // FramebufferUpdateRequest
			var m struct {
				Incremental uint8
				_           [4]uint16
			}
			err = binary.Read(r.in, binary.BigEndian, &m)
			r.storeRequest(updateRequest{format: format, full: m.Incremental == 0})
		case 4: // KeyEvent
			var m struct {
				Down uint8
				_    uint16
				Key  uint32
			}
			if err = binary.Read(r.in, binary.BigEndian, &m); err == nil && m.Down != 0 {
				r.screen.typeKey(m.Key)
			}
		case 5: // PointerEvent
			r.skip(5)
		case 6: // ClientCutText
			var m struct {
				_      [3]uint8
				Length uint32
			}
			err = binary.Read(r.in, binary.BigEndian, &m)
			if m.Length > 1<<20 {
				return
			}
			r.skip(int(m.Length))
		default:
			return
		}
		if err != nil {
			return
		}
	}
}

// skip discards bytes. An error shows at the next read.
func (r *rfbServer) skip(n int) { _, _ = r.in.Discard(n) }

// storeRequest stores the newest request. An incremental request does not replace a full one.
func (r *rfbServer) storeRequest(q updateRequest) {
	select {
	case old := <-r.requests:
		q.full = q.full || old.full
	default:
	}
	r.requests <- q
}

// answerRequests answers requests: a full request immediately, and an incremental one when the text changes.
func (r *rfbServer) answerRequests(gone <-chan struct{}) {
	var shown [rows]string
	var asked *updateRequest
	for {
		text, changed, ended := r.screen.currentText()
		if ended {
			return
		}
		if asked != nil && text != shown {
			if r.sendChangedRows(asked.format, text, shown) != nil {
				return
			}
			shown, asked = text, nil
		}
		select {
		case <-changed:
		case q := <-r.requests:
			asked = &q
			if q.full {
				shown = [rows]string{}
			}
		case <-gone:
			return
		}
	}
}

// sendChangedRows sends the changed rows.
func (r *rfbServer) sendChangedRows(f pixelFormat, text, shown [rows]string) error {
	msg := []byte{0, 0, 0, 0}
	count := 0
	for i := range text {
		if text[i] != shown[i] {
			count++
			for _, v := range []uint16{0, uint16(i * cellHeight), width, cellHeight, 0, 0} { // x, y, w, h, encoding raw
				msg = binary.BigEndian.AppendUint16(msg, v)
			}
			msg = f.appendPixels(msg, drawLine(text[i]))
		}
	}
	binary.BigEndian.PutUint16(msg[2:], uint16(count))
	r.conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
	_, err := r.conn.Write(msg)
	return err
}

var backgroundColour, textColour = image.NewUniform(color.RGBA{0x10, 0x18, 0x20, 0xff}), image.NewUniform(color.RGBA{0xd8, 0xe0, 0xd0, 0xff})

// drawLine draws one line of text.
func drawLine(line string) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, width, cellHeight))
	draw.Draw(img, img.Bounds(), backgroundColour, image.Point{}, draw.Src)
	d := font.Drawer{Dst: img, Src: textColour, Face: basicfont.Face7x13, Dot: fixed.P(0, basicfont.Face7x13.Ascent)}
	d.DrawString(line)
	return img
}

func (f pixelFormat) appendPixels(msg []byte, img *image.RGBA) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	if f.BigEndian != 0 {
		order = binary.BigEndian
	}
	for p := img.Pix; len(p) > 0; p = p[4:] {
		v := uint32(p[0])*uint32(f.RedMax)/255<<f.RedShift |
			uint32(p[1])*uint32(f.GreenMax)/255<<f.GreenShift |
			uint32(p[2])*uint32(f.BlueMax)/255<<f.BlueShift
		switch f.BitsPerPixel {
		case 8:
			msg = append(msg, byte(v))
		case 16:
			msg = order.AppendUint16(msg, uint16(v))
		default:
			msg = order.AppendUint32(msg, v)
		}
	}
	return msg
}
