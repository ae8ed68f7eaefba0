package e2e

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// loginLimit is the time limit for a complete Debian to reach its login prompt, with emulation on a busy machine.
const loginLimit = 6 * time.Minute

// serialConsole is a shell on a guest's serial console.
type serialConsole struct {
	t      *testing.T
	pty    *os.File
	output bytes.Buffer
	n      int // number of commands sent
}

func openSerial(t *testing.T, path string) *serialConsole {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	set, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	set.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
	set.Iflag &^= unix.ICRNL
	set.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, set); err != nil {
		t.Fatal(err)
	}
	pty := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { pty.Close() })
	return &serialConsole{t: t, pty: pty}
}

// expect reads until the guest's output matches the pattern, and returns the output up to the end of the match.
func (s *serialConsole) expect(what string, limit time.Duration) string {
	s.t.Helper()
	form := regexp.MustCompile(what)
	if err := s.pty.SetReadDeadline(time.Now().Add(limit)); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		if at := form.FindIndex(s.output.Bytes()); at != nil {
			return string(s.output.Next(at[1]))
		}
		n, err := s.pty.Read(buf)
		s.output.Write(buf[:n])
		if err != nil {
			text := s.output.String()
			s.t.Fatalf("the guest's output lacks %q: %v; it ends with %q", what, err, text[max(0, len(text)-600):])
		}
	}
}

func (s *serialConsole) sendLine(line string) {
	s.t.Helper()
	if _, err := s.pty.WriteString(line + "\r"); err != nil {
		s.t.Fatal(err)
	}
}

// signInTries limits the attempts to sign in, because the login prompt may appear before the first-boot initialization
// has created the user.
const signInTries = 3

// signIn signs in at the login prompt. It starts a shell without echo, and turns off kernel messages on the console.
func (s *serialConsole) signIn(hostname, user, password string) {
	s.t.Helper()
	for try := 1; ; try++ {
		s.expect(hostname+` login: `, loginLimit)
		s.sendLine(user)
		s.expect(`assword: `, loginLimit)
		s.sendLine(password)
		if !strings.Contains(s.expect(`\$ |Login incorrect`, loginLimit), "Login incorrect") {
			break
		}
		if try == signInTries {
			s.t.Fatalf("%s refuses the sign-in of %s", hostname, user)
		}
	}
	s.sendLine("stty -echo; PS1= PS2= exec sh -c 'echo quiet; exec sh'")
	s.expect(`quiet\r?\n`, guestLimit)
	s.runCommand(":") // discards the shell's initial output
	s.runCommand("sudo -n dmesg -n 1 2>/dev/null")
}

// runCommand runs a command in the shell and returns its output.
func (s *serialConsole) runCommand(command string) string {
	s.t.Helper()
	s.n++
	end := fmt.Sprintf("end-%d", s.n)
	s.sendLine(command + "; echo e''" + end[1:])
	text := s.expect(end+`\r?\n`, guestLimit)
	return strings.TrimSpace(strings.ReplaceAll(text[:strings.LastIndex(text, end)], "\r", ""))
}
