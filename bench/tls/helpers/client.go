// Go's crypto/tls against the server named by the argument: each version and cipher of ours, with
// and without resumption, downloads and uploads, HTTP/1.1 and HTTP/2.
package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func rule(index int) byte { return byte(index*31 + index>>8) }

func check(client *http.Client, base string, resumes bool) error {
	for _, size := range []int{1, 1000, 16384, 100000, 5000000} {
		response, err := client.Get(fmt.Sprintf("%s/body/%d", base, size))
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		if len(body) != size {
			return fmt.Errorf("%d bytes of %d", len(body), size)
		}
		for index, got := range body {
			if got != rule(index) {
				return fmt.Errorf("byte %d of %d is wrong", index, size)
			}
		}
		if response.TLS == nil {
			return fmt.Errorf("no TLS")
		}
	}
	upload := make([]byte, 3000000)
	for index := range upload {
		upload[index] = rule(index)
	}
	response, err := client.Post(base+"/upload", "application/octet-stream", bytes.NewReader(upload))
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || string(answer) != "3000000 good" {
		return fmt.Errorf("upload: %q %v", answer, err)
	}
	client.CloseIdleConnections()
	response, err = client.Get(base + "/body/10")
	if err != nil {
		return err
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response.TLS.DidResume != resumes {
		return fmt.Errorf("resumed is %v", response.TLS.DidResume)
	}
	return nil
}

func main() {
	base := os.Args[1]
	failed := 0
	try := func(name string, http2 bool, config tls.Config) {
		config.InsecureSkipVerify = true
		resumes := config.ClientSessionCache != nil
		transport := &http.Transport{TLSClientConfig: &config, ForceAttemptHTTP2: http2}
		err := check(&http.Client{Transport: transport}, base, resumes)
		verdict := "pass"
		if err != nil {
			verdict = "FAIL " + err.Error()
			failed++
		}
		fmt.Printf("go %-60s %s\n", name, verdict)
	}
	for _, http2 := range []bool{false, true} {
		protocol := map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[http2]
		for _, resume := range []bool{false, true} {
			how := map[bool]string{false: "full", true: "resumed"}[resume]
			cache := func() tls.ClientSessionCache {
				if resume {
					return tls.NewLRUClientSessionCache(8)
				}
				return nil
			}
			try(strings.Join([]string{"TLS 1.3", protocol, how}, ", "), http2,
				tls.Config{MinVersion: tls.VersionTLS13, ClientSessionCache: cache()})
			for _, suite := range []uint16{
				tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
				tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
				tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
			} {
				name := tls.CipherSuiteName(suite)
				try(strings.Join([]string{protocol, how, name}, ", "), http2, tls.Config{
					MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}, ClientSessionCache: cache()})
			}
		}
	}
	if failed > 0 {
		os.Exit(1)
	}
}
