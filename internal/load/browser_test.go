package load

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// Who is told that the portal has too much to do just now asks again, as it says; who is refused does not.
func TestABusyPortalIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []int
		ok      bool
	}{
		"busy at first": {[]int{http.StatusServiceUnavailable, http.StatusSeeOther}, true},
		"refused":       {[]int{http.StatusUnprocessableEntity}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(c.answers[asked])
				asked++
			}))
			defer portal.Close()
			client := portal.Client()
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			err := (&browser{portal: portal.URL, via: client}).post(t.Context(), "/sign-in", url.Values{})
			if (err == nil) != c.ok || asked != len(c.answers) {
				t.Errorf("asked %d times: %v", asked, err)
			}
		})
	}
}
