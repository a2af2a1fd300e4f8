package pld
import ("testing";"fmt";"time";"math")
func TestExplore(t *testing.T) {
	for _,c:=range []struct{s []Step; d float64}{
		{[]Step{{0.04,1.5,2250}},1e-5},
		{[]Step{{0.01,0.7,120}},1e-5},
		{[]Step{{64./10000,1,781}},1e-6},
		{[]Step{{64./10000,1,782}},1e-6},
		{[]Step{{5000./392000,1,784}},1e-7},
		{[]Step{{5000./392000,1,7840}},1e-7},
		{[]Step{{1000./2000000,1,1000}},5e-9},
		{[]Step{{10./425,.01,1000}},2.35e-3},
		{[]Step{{1e-7,.5,1000000}},1e-9},
		{[]Step{{1e-4,.5,1000000}},1e-12},
		{[]Step{{.5,100,1000000}},1e-12},
		{[]Step{{0.999999999,4,16}},1e-12},
		{[]Step{{.01,.67379294682,1}},1e-5},
		{[]Step{{.001,3.20956502598/6,25}},1e-5},
		{[]Step{{.01,.7,100},{.02,1,100}},1e-5},
	} {
		t0:=time.Now()
		b,err:=Epsilon(c.s,c.d)
		fmt.Println(c.s,c.d,b,err,b.Upper/b.Lower-1,time.Since(t0))
	}
	fmt.Println(Delta([]Step{{.2,.5,3}},1))
	fmt.Println(Delta([]Step{{1,math.Sqrt(3),3}},1))
	fmt.Println(GaussianEpsilon(1,1e-12))
	for _,x:=range [][2]float64{{.5,1e-5},{1,1e-5},{1,1e-6},{2,1e-5},{4,1e-6},{10,1e-9}} { fmt.Println(x,GaussianEpsilon(x[0],x[1])) }
}
