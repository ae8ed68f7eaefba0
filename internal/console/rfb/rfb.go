// Package rfb parses what VNC clients send, as QEMU's server does (RFC 6143 and QEMU's extensions), so that a portal can
// withhold the input of a person who only watches.
package rfb

import (
	"encoding/binary"
	"errors"
)

// MaxCutText is the maximum size of a clipboard text, in bytes. QEMU ends connections that send more.
const MaxCutText = 1 << 20

// Errors of a stream that is not what QEMU's server accepts. The connection must be closed, because nobody knows where
// the next message begins.
var (
	ErrVersion  = errors.New("the client does not speak RFB 3.7 or 3.8")
	ErrSecurity = errors.New("the client wants an unknown type of authentication")
	ErrMessage  = errors.New("the client sent an unknown message")
	ErrTooLarge = errors.New("the client sent too much text at once")
)

// Types of client messages.
const (
	setPixelFormat = 0
	setEncodings   = 2
	updateRequest  = 3
	keyEvent       = 4
	pointerEvent   = 5
	cutText        = 6
	powerControl   = 250
	setDesktopSize = 251
	qemuMessage    = 255

	qemuKey   = 0
	qemuAudio = 1
)

const (
	versionSize  = 12
	secretSize   = 16 // answer to the challenge of VNC authentication
	maxEncodings = 1 << 10
	maxKeysDown  = 64
)

// key is a pressed key: its symbol and, if the client sends them, its scan code.
type key struct {
	symbol, code uint32
	extended     bool
}

type phase int

const (
	inVersion phase = iota
	inSecurity
	inSecret
	inClientInit
	inMessages
)

// Filter is the parser of one client's stream. The zero value is at the start of the stream.
type Filter struct {
	phase   phase
	head    []byte // an incomplete message whose size is unknown or whose fate needs all of it
	rest    int    // bytes of the current message that are still to come
	drop    bool   // the current message is withheld
	down    []key  // keys that the client has pressed
	buttons bool   // the client holds a mouse button
	x, y    uint16 // the last position of the pointer
	out     []byte

	// Acted is set when the client presses a key, moves the mouse or changes its clipboard, withheld or not.
	Acted bool
}

// Next returns what the server gets of the client's next bytes. Without input, messages that press keys, move the mouse,
// change the clipboard, the power or the screen's size are withheld, and what the client holds down is released first.
// The result is valid until the next call.
func (f *Filter) Next(chunk []byte, input bool) ([]byte, error) {
	f.out = f.out[:0]
	if !input {
		f.release()
	}
	for len(chunk) > 0 {
		if f.rest > 0 {
			n := min(f.rest, len(chunk))
			if !f.drop {
				f.out = append(f.out, chunk[:n]...)
			}
			f.rest -= n
			chunk = chunk[n:]
			continue
		}
		need, err := f.need()
		if err != nil {
			return nil, err
		}
		if more := need - len(f.head); more > 0 {
			n := min(more, len(chunk))
			f.head = append(f.head, chunk[:n]...)
			chunk = chunk[n:]
			if n < more {
				break
			}
		}
		if next, err := f.need(); err != nil {
			return nil, err
		} else if next > len(f.head) {
			continue
		}
		if err := f.take(input); err != nil {
			return nil, err
		}
	}
	return f.out, nil
}

// need returns the number of bytes of the current message that decide its size and fate.
func (f *Filter) need() (int, error) {
	switch f.phase {
	case inVersion:
		return versionSize, nil
	case inSecret:
		return secretSize, nil
	case inSecurity, inClientInit:
		return 1, nil
	}
	if len(f.head) == 0 {
		return 1, nil
	}
	switch f.head[0] {
	case setPixelFormat:
		return 20, nil
	case setEncodings, powerControl:
		return 4, nil
	case updateRequest:
		return 10, nil
	case keyEvent, cutText, setDesktopSize:
		return 8, nil
	case pointerEvent:
		return 6, nil
	case qemuMessage:
		switch {
		case len(f.head) < 2:
			return 2, nil
		case f.head[1] == qemuKey:
			return 12, nil
		case f.head[1] == qemuAudio && len(f.head) < 4:
			return 4, nil
		case f.head[1] == qemuAudio && binary.BigEndian.Uint16(f.head[2:]) == 2: // set the format
			return 10, nil
		case f.head[1] == qemuAudio:
			return 4, nil
		}
	}
	return 0, ErrMessage
}

// take forwards or withholds the message whose decisive bytes are in head.
func (f *Filter) take(input bool) error {
	head := f.head
	f.head = f.head[:0]
	f.drop, f.rest = false, 0
	switch f.phase {
	case inVersion:
		if string(head) != "RFB 003.008\n" && string(head) != "RFB 003.007\n" {
			return ErrVersion
		}
		f.phase = inSecurity
	case inSecurity:
		switch head[0] {
		case 1: // none
			f.phase = inClientInit
		case 2: // VNC authentication
			f.phase = inSecret
		default:
			return ErrSecurity
		}
	case inSecret:
		f.phase = inClientInit
	case inClientInit:
		f.phase = inMessages
		f.out = append(f.out, 1) // shared: a client never disconnects the other ones
		return nil
	case inMessages:
		if err := f.takeMessage(head, input); err != nil {
			return err
		}
	}
	if !f.drop {
		f.out = append(f.out, head...)
	}
	return nil
}

func (f *Filter) takeMessage(head []byte, input bool) error {
	switch head[0] {
	case keyEvent, pointerEvent, cutText, qemuMessage:
		f.Acted = true
	}
	switch head[0] {
	case setEncodings:
		n := int(binary.BigEndian.Uint16(head[2:]))
		if n > maxEncodings {
			return ErrMessage
		}
		f.rest = 4 * n
	case keyEvent:
		f.drop = !input || !f.note(key{symbol: binary.BigEndian.Uint32(head[4:])}, head[1] != 0)
	case pointerEvent:
		f.drop = !input
		if input {
			f.buttons = head[1]&7 != 0
			f.x, f.y = binary.BigEndian.Uint16(head[2:]), binary.BigEndian.Uint16(head[4:])
		}
	case cutText:
		n := int64(int32(binary.BigEndian.Uint32(head[4:]))) // negative: a message of the extended clipboard
		if n < 0 {
			n = -n
		}
		if n > MaxCutText {
			return ErrTooLarge
		}
		f.drop, f.rest = !input, int(n)
	case powerControl:
		f.drop = true // power has its own actions, permissions and audit lines
	case setDesktopSize:
		f.drop, f.rest = !input, 16*int(head[6])
	case qemuMessage:
		if head[1] == qemuKey {
			k := key{binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:]), true}
			f.drop = !input || !f.note(k, head[2]|head[3] != 0)
		}
	}
	return nil
}

// note remembers the keys that are down. It returns false for more keys than a person can hold.
func (f *Filter) note(k key, down bool) bool {
	for i, held := range f.down {
		if held == k {
			if !down {
				f.down = append(f.down[:i], f.down[i+1:]...)
			}
			return true
		}
	}
	if down {
		if len(f.down) == maxKeysDown {
			return false
		}
		f.down = append(f.down, k)
	}
	return true
}

// release lets go of all keys and mouse buttons, once the server can get a message.
func (f *Filter) release() {
	if f.phase != inMessages || f.rest > 0 && !f.drop {
		return
	}
	for _, k := range f.down {
		if k.extended {
			f.out = append(f.out, qemuMessage, qemuKey, 0, 0)
			f.out = binary.BigEndian.AppendUint32(f.out, k.symbol)
			f.out = binary.BigEndian.AppendUint32(f.out, k.code)
			continue
		}
		f.out = append(f.out, keyEvent, 0, 0, 0)
		f.out = binary.BigEndian.AppendUint32(f.out, k.symbol)
	}
	f.down = f.down[:0]
	if f.buttons {
		f.out = append(f.out, pointerEvent, 0)
		f.out = binary.BigEndian.AppendUint16(f.out, f.x)
		f.out = binary.BigEndian.AppendUint16(f.out, f.y)
		f.buttons = false
	}
}
