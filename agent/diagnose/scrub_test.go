package diagnose

import (
	"strings"
	"testing"
)

func TestScrubRemovesSecretsAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	s := NewScrubber([]string{"CANARY-known value\"1\"", "short", "", "  CANARY/second+1  "})
	for _, text := range []string{
		"password: CANARY with spaces\n",
		"  - dbPassword: \"CANARY x\"\n",
		`level=INFO msg="sign in" password=CANARY user=anna` + "\n",
		`level=INFO msg="sign in" password="CANARY \"quoted\" text" user=anna` + "\n",
		`{"name":"x","secret":"CANARY","other":1}`,
		`msg="{\"token\":\"CANARY\"}"`,
		"METRICS_TOKEN=CANARY; export X",
		"curl --token CANARY http://example.org/",
		"curl --password=CANARY http://example.org/",
		"https://anna:CANARY@example.org/path",
		"connect rbd:pool/disk:id=libvirt:key=AQCANARYbcdefghijklmnopqrstuvwxyz01234567==:auth",
		"key = AQCANARYbcdefghijklmnopqrstuvwxyz01234567==",
		"Authorization: Bearer CANARY0123456789",
		"got header authorization=[Bearer CANARY0123456789]",
		"-----BEGIN EC PRIVATE KEY-----\nCANARYCANARY\nCANARY==\n-----END EC PRIVATE KEY-----\nafter",
		`msg="-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\n"`,
		"-----BEGIN RSA PRIVATE KEY-----\nCANARY cut off here",
		"CANARYab\nCANARY+/==\n-----END PRIVATE KEY-----\nthe rest of a cut log",
		"join with qxj_CANARYabcdefgh." + strings.Repeat("ab", 32),
		"API token qx_CANARYabcdefgh used",
		`<password>CANARY</password>`,
		`<auth type='chap' username='u' password='CANARY'/>`,
		"node.session.auth.password_in = CANARY",
		`error: CANARY-known value"1" refused`,
		`error="CANARY-known value\"1\" refused"`,
		"GET /?q=CANARY%2Fsecond%2B1",
		"in base64: Q0FOQVJZL3NlY29uZCsx",
	} {
		got := s.Scrub(text)
		if strings.Contains(got, "CANARY") || strings.Contains(got, "Q0FOQVJZ") || !strings.Contains(got, removed) {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{
		"", "nothing to hide\n\n  at all", "https://example.org/a@b", "time=2026-01-02T03:04:05Z level=INFO msg=\"agent is running\" portal=https://p:8444\n",
		"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n", "short", "MemTotal:       16384 kB\n",
	} {
		if got := s.Scrub(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := s.Scrub("before\npassword=x after\nuser=anna\n"); got != "before\npassword="+removed+" after\nuser=anna\n" {
		t.Errorf("got %q", got)
	}
}

func BenchmarkScrub(b *testing.B) {
	text := strings.Repeat("time=2026-01-02T03:04:05Z level=INFO msg=\"agent is running\" portal=https://p:8444 session=abcdef\n", 10000)
	b.SetBytes(int64(len(text)))
	s := NewScrubber([]string{"something secret"})
	for b.Loop() {
		s.Scrub(text)
	}
}
