package spread

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/clusterimage/sealer/certificate"
)

// An Offer is where a machine serves its blobs, and the proof that somebody may
// have them. It is a secret.
type Offer struct {
	Port        int    `json:"port"`
	Token       string `json:"token"`
	Certificate string `json:"certificate"` // the SHA-256 of its DER form, hex
}

// Open opens the blob with a digest, sha256:HEX. The error of a blob that is not
// there is of no matter.
type Open func(ctx context.Context, digest string) (io.ReadSeekCloser, error)

// A Server serves blobs until Close.
type Server struct {
	Offer  Offer
	server *http.Server
}

// Serve listens on a port that the system chooses. t bounds what all who ask get
// together.
func Serve(open Open, t *Throttle) (*Server, error) {
	// It signs itself: its digest travels in the Offer.
	cert, err := certificate.Pair{}.Issue(&x509.Certificate{}, certificate.Life)
	if err != nil {
		return nil, err
	}
	token := make([]byte, 32)
	if _, err := rand.Read(token); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(cert.Certificate.Raw)
	s := &Server{Offer: Offer{Port: l.Addr().(*net.TCPAddr).Port, Token: hex.EncodeToString(token), Certificate: hex.EncodeToString(sum[:])}}
	s.server = &http.Server{Handler: handler(open, s.Offer.Token, t), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() {
		_ = s.server.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*cert.TLS()}, MinVersion: tls.VersionTLS13})) // ends with Close
	}()
	return s, nil
}

// Close ends the server and all transfers.
func (s *Server) Close() error { return s.server.Close() }

const prefix = "/blob/"

func handler(open Open, token string, t *Throttle) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(got), []byte(token)) != 1 {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		digest, ok := strings.CutPrefix(r.URL.Path, prefix)
		if !ok || r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		f, err := open(r.Context(), digest)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, seeker{t.Reader(r.Context(), f), f})
	})
}

// errOther is the error of a machine that is not the one of the Offer.
var errOther = errors.New("another machine answers")
