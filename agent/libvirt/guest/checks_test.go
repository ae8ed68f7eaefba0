package guest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// A health check does not dial an address known only from the guest agent. An address known from ARP is dialed through
// the device of its ARP entry.
func TestHealthCheckDialsOnlyAddressesKnownToHost(t *testing.T) {
	t.Parallel()
	const mac = "52:54:00:00:00:01"
	arp := parseARPTable(`IP address       HW type     Flags       HW address            Mask     Device
192.168.122.9    0x1         0x2         52:54:00:00:00:01     *        virbr0
10.0.0.7         0x1         0x2         52:54:00:00:00:99     *        eth0
10.0.0.8         0x1         0x0         52:54:00:00:00:01     *        eth0
`)
	seen := func(ip string, by ...fleet.AddressSource) NICAddresses {
		return NICAddresses{mac: {{IP: ip, By: by}}}
	}
	for name, c := range map[string]struct {
		seen NICAddresses
		want string
	}{
		"guest agent only":           {seen("10.0.0.1", fleet.FromAgent), ""},
		"a lease":                    {seen("192.168.122.5", fleet.FromAgent, fleet.FromLease), "192.168.122.5@"},
		"ARP":                        {seen("192.168.122.9", fleet.FromARP), "192.168.122.9@virbr0"},
		"ARP entry with another MAC": {seen("10.0.0.7", fleet.FromARP), ""},
		"expired ARP entry":          {seen("10.0.0.8", fleet.FromARP), ""},
		"guest agent and ARP":        {seen("192.168.122.9", fleet.FromAgent, fleet.FromARP), "192.168.122.9@virbr0"},
		"no address":                 {seen("x", fleet.FromLease), ""},
	} {
		var got []string
		for _, r := range dialTargets(c.seen, arp) {
			got = append(got, r.ip.String()+"@"+r.device)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: dialed %q, want %q", name, got, c.want)
		}
	}
}

// The check connects only to the given address, follows no redirect, and stops reading an endless body.
func TestHTTPCheckSendsOneRequest(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/":      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"/moved": "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
		"/much":  "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("a", 1<<20),
		"/odd":   "SSH-2.0-OpenSSH\r\n",
		"/long":  "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n",
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = conn.Write([]byte(answers[r.URL.Path]))
				}
			}()
		}
	}()
	at := l.Addr().(*net.TCPAddr)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ask := func(path string, status int) error {
		check := fleet.HealthCheck{Kind: fleet.HealthHTTP, Port: at.Port, Path: path, Status: status}.WithDefaults()
		_, err := hypervisor.CheckPort(ctx, check, func(ctx context.Context, port int) (net.Conn, error) {
			return dialFirstReachable(ctx, []dialTarget{{ip: at.IP}}, port)
		})
		return err
	}
	for path, want := range map[string]string{"/": "", "/moved": "the response has the status 302 instead of 200 to 299", "/much": "", "/odd": "no valid HTTP response", "/long": "no valid HTTP response"} {
		if err := ask(path, 0); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if err := ask("/moved", 302); err != nil {
		t.Errorf("an expected redirect: %v", err)
	}
	if err := ask("/", 204); err == nil || err.Error() != "the response has the status 200 instead of 204" {
		t.Errorf("unexpected status: %v", err)
	}
	l.Close()
	var unsure hypervisor.CannotCheckGuestError
	if err := ask("/", 0); err == nil || errors.As(err, &unsure) || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("closed port: %v", err)
	}
	if _, err := dialFirstReachable(ctx, nil, 80); !errors.As(err, &unsure) {
		t.Errorf("without an address: %v", err)
	}
}
