package rfb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Messages of a client.
var (
	hello = []byte("RFB 003.008\n\x01\x00") // version, no authentication, not shared

	pixelFormat = make([]byte, 20)
	encodings   = []byte{2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 16}
	update      = []byte{3, 1, 0, 0, 0, 0, 4, 0, 3, 0}
	audioOff    = []byte{255, 1, 0, 1}
	audioFormat = []byte{255, 1, 0, 2, 3, 2, 0, 0, 0xac, 0x44}
	xvpReset    = []byte{250, 0, 1, 4}
	desktopSize = append([]byte{251, 0, 4, 0, 3, 0, 1, 0}, make([]byte, 16)...)
)

func press(symbol uint32, down byte) []byte {
	return binary.BigEndian.AppendUint32([]byte{4, down, 0, 0}, symbol)
}

func pressCode(symbol, code uint32, down byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte{255, 0, 0, down}, symbol), code)
}

func click(mask byte, x, y uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{5, mask}, x), y)
}

func cut(text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{6, 0, 0, 0}, uint32(len(text))), text...)
}

// begun is the start of the stream that the server gets: the client is made to share.
var begun = []byte("RFB 003.008\n\x01\x01")

func TestFilterWithholdsInputOfWatchers(t *testing.T) {
	t.Parallel()
	harmless := slices.Concat(pixelFormat, encodings, update, audioOff, audioFormat)
	input := slices.Concat(press('a', 1), press('a', 0), pressCode('b', 48, 1), pressCode('b', 48, 0), click(1, 2, 3), click(0, 2, 3), cut("secret"), desktopSize)
	for _, c := range []struct {
		name string
		may  bool
		want []byte
	}{
		{"watches", false, slices.Concat(begun, harmless, update)},
		{"types", true, slices.Concat(begun, harmless, input, update)},
	} {
		var whole Filter
		got, err := whole.Next(slices.Concat(hello, harmless, input, xvpReset, update), c.may)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %v, %x\nwant %x", c.name, err, got, c.want)
		}
		if !whole.Acted {
			t.Errorf("%s: no act seen", c.name)
		}
		// the same stream in pieces of any size
		for range 200 {
			var f Filter
			var out []byte
			for rest := slices.Concat(hello, harmless, input, xvpReset, update); len(rest) > 0; {
				n := min(len(rest), 1+rand.IntN(9))
				part, err := f.Next(rest[:n], c.may)
				if err != nil {
					t.Fatal(err)
				}
				out, rest = append(out, part...), rest[n:]
			}
			if !bytes.Equal(out, c.want) {
				t.Fatalf("%s, in pieces: %x\nwant %x", c.name, out, c.want)
			}
		}
	}
}

func TestFilterReleasesWhatIsHeldDown(t *testing.T) {
	t.Parallel()
	var f Filter
	if _, err := f.Next(slices.Concat(hello, press(0xffe3, 1), pressCode('c', 46, 1), press('x', 1), press('x', 0), click(1, 7, 8)), true); err != nil {
		t.Fatal(err)
	}
	got, err := f.Next(update, false)
	want := slices.Concat(press(0xffe3, 0), pressCode('c', 46, 0), click(0, 7, 8), update)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, %x, want %x", err, got, want)
	}
	if got, err := f.Next(slices.Concat(press(0xffe3, 0), update), false); err != nil || !bytes.Equal(got, update) {
		t.Errorf("%v, %x: released twice", err, got)
	}
}

func TestFilterKeepsMessagesWholeWhenKeyboardChanges(t *testing.T) {
	t.Parallel()
	text := cut(strings.Repeat("x", 100))
	var f Filter
	first, err := f.Next(slices.Concat(hello, press('a', 1), text[:50]), true)
	if err != nil {
		t.Fatal(err)
	}
	out := slices.Clone(first)
	second, err := f.Next(text[50:], false) // the server waits for the rest of the text
	out = append(out, second...)
	third, err2 := f.Next(slices.Concat(press('b', 1), update), false)
	out = append(out, third...)
	want := slices.Concat(begun, press('a', 1), text, press('a', 0), update)
	if err != nil || err2 != nil || !bytes.Equal(out, want) {
		t.Errorf("%v, %v, %x\nwant %x", err, err2, out, want)
	}
	var g Filter // and a text whose beginning is withheld is withheld to its end
	first, _ = g.Next(slices.Concat(hello, text[:50]), false)
	out = slices.Clone(first)
	second, err = g.Next(append(text[50:], update...), true)
	if out = append(out, second...); err != nil || !bytes.Equal(out, append(slices.Clone(begun), update...)) {
		t.Errorf("%v, %x", err, out)
	}
}

func TestFilterRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	huge := binary.BigEndian.AppendUint32([]byte{6, 0, 0, 0}, 1<<30)
	for name, c := range map[string]struct {
		sent []byte
		want error
	}{
		"old version":      {[]byte("RFB 003.003\n"), ErrVersion},
		"HTTP":             {[]byte("GET / HTTP/1.1\r\n"), ErrVersion},
		"TLS":              {[]byte("RFB 003.008\n\x13"), ErrSecurity},
		"unknown message":  {append(slices.Clone(hello), 7), ErrMessage},
		"unknown of QEMU":  {append(slices.Clone(hello), 255, 9), ErrMessage},
		"1 GiB of text":    {append(slices.Clone(hello), huge...), ErrTooLarge},
		"65,535 encodings": {append(slices.Clone(hello), 2, 0, 0xff, 0xff), ErrMessage},
	} {
		for _, may := range []bool{true, false} {
			var f Filter
			if _, err := f.Next(c.sent, may); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
}

func TestFilterPassesExtendedClipboardAndPassword(t *testing.T) {
	t.Parallel()
	extended := append([]byte{6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc}, 1, 2, 3, 4) // −4: four bytes of the extension
	sent := slices.Concat([]byte("RFB 003.008\n\x02"), make([]byte, 16), []byte{1}, extended, update)
	var f Filter
	if got, err := f.Next(sent, true); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%v, %x", err, got)
	}
}

// FuzzFilter feeds arbitrary streams: a watcher's stream never carries input messages.
func FuzzFilter(f *testing.F) {
	f.Add(slices.Concat(hello, encodings, press('a', 1), click(1, 0, 0), update))
	f.Fuzz(func(t *testing.T, sent []byte) {
		var watcher, again Filter
		out, err := watcher.Next(sent, false)
		if err != nil {
			return
		}
		passed, err := again.Next(slices.Clone(out), false)
		if err != nil || !bytes.Equal(passed, out) {
			t.Errorf("%v: %x became %x", err, out, passed)
		}
	})
}
